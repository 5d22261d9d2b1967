"""How long a work takes at the rates that a device achieves, and how full of it the device is."""

from typing import Final

from paceline.cluster import Device
from paceline.cost.ported.achieved import Achieved, rate_of
from paceline.graph.work import Family, Launch, Work

PRODUCTS: Final = (
    Family.MATRIX,
    Family.GROUPED_MATRIX,
    Family.CONVOLUTION,
    Family.ATTENTION,
)
"""Families whose arithmetic is that of products; of all others the memory decides."""
_THREADS: Final = 2048
"""Threads that one streaming multiprocessor or compute unit of recent devices holds at most."""


def roof_ns(work: Work, device: Achieved) -> float:
    """The longer of arithmetic and memory traffic; 0 where neither is known. Of attention only the
    arithmetic counts: its kernels keep what they work on in the processors."""
    memory = work.size_bytes / device.memory_bytes_per_s
    if work.family not in PRODUCTS:
        return memory * 1e9
    arithmetic = work.flops / rate_of(device, work.dtype)
    return (arithmetic if work.family is Family.ATTENTION else max(arithmetic, memory)) * 1e9


def fill(family: Family, launch: Launch, device: Device) -> float:
    """Which part of the device a launch keeps busy. Blocks of products take a unit each; what is
    not told counts as full."""
    if not launch.blocks or not device.units:
        return 1.0
    if family in PRODUCTS:
        return min(1.0, launch.blocks / device.units)
    return min(1.0, launch.blocks * max(launch.threads, 1) / (device.units * _THREADS))


def waves(family: Family, launch: Launch, device: Device) -> float:
    """How often the device is filled; 0 where that is not told."""
    if not launch.blocks or not device.units:
        return 0.0
    if family in PRODUCTS:
        return launch.blocks / device.units
    return launch.blocks * max(launch.threads, 1) / (device.units * _THREADS)
