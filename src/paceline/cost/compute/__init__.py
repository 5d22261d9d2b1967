"""Durations of kernels: by roofline, or scaled from another device."""

from paceline.cost.compute.roofline import TYPICAL, Efficiency, peak, roofline_ns
from paceline.cost.compute.waves import memory_share, one_wave_ns, wave_scaled_ns

__all__ = [
    "TYPICAL",
    "Efficiency",
    "memory_share",
    "one_wave_ns",
    "peak",
    "roofline_ns",
    "wave_scaled_ns",
]
