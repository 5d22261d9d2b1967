"""How long a work takes at the rates that a device achieves, and how full of it the device is."""

from math import ceil
from typing import Final

from paceline.cluster import Device
from paceline.cost.achieved import Achieved, rate_of
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
_REGISTERS: Final = 65536
_SHARED: Final = 233472
"""Registers, and bytes of shared memory, of one of the H100's; the A100 has 167,936."""


def roof_ns(work: Work, device: Achieved) -> float:
    """The longer of arithmetic and memory traffic; 0 where neither is known. Of attention only the
    arithmetic counts: its kernels keep what they work on in the processors."""
    memory = work.size_bytes / device.memory_bytes_per_s
    if work.family not in PRODUCTS:
        return memory * 1e9
    arithmetic = work.flops / rate_of(device, work.dtype)
    return (arithmetic if work.family is Family.ATTENTION else max(arithmetic, memory)) * 1e9


def peak_ns(work: Work, device: Achieved) -> float:
    """Of products the arithmetic alone, as if all that they read lay in caches; else `roof_ns`."""
    if work.family not in PRODUCTS:
        return roof_ns(work, device)
    return work.flops / rate_of(device, work.dtype) * 1e9


def fill(family: Family, launch: Launch, device: Device) -> float:
    """Which part of the device a launch keeps busy. Blocks of products take a unit each; what is
    not told counts as full."""
    if not launch.blocks or not device.units:
        return 1.0
    if family in PRODUCTS:
        return min(1.0, launch.blocks / device.units)
    return min(1.0, launch.blocks * max(launch.threads, 1) / (device.units * _THREADS))


def resident(launch: Launch) -> int:
    """Blocks that one processor holds at once, by their threads and registers; at least one."""
    threads = max(launch.threads, 1)
    by_threads = _THREADS // threads
    by_registers = _REGISTERS // (launch.registers * threads) if launch.registers else by_threads
    by_memory = _SHARED // launch.shared_bytes if launch.shared_bytes else by_threads
    return max(1, min(by_threads, by_registers, by_memory))


def tail(launch: Launch, device: Device) -> float:
    """Which part of its waves a launch leaves empty, all of it in the last one; 0 where the trace
    does not tell. A grid that is made to fill the device once and to stay has none."""
    if not launch.blocks or not device.units:
        return 0.0
    waves = launch.blocks / (device.units * resident(launch))
    return (ceil(waves) - waves) / ceil(waves)
