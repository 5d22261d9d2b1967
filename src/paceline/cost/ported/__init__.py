"""Recorded kernels on another device: each keeps its share of what its device can do.

    ported_ns(kernels, origin, destination)    # durations there, one per kernel

`roof` says how long a work takes at the rates that a device achieves (`cost/achieved`), `shares`
what forecasts of both devices say, and `port` carries durations over.
"""

from paceline.cost.ported.kernels import Kernels
from paceline.cost.ported.port import by_rates_ns, ported_ns
from paceline.cost.ported.recorded import kernel_rows, recorded_device, working_rows
from paceline.cost.ported.roof import PRODUCTS, fill, peak_ns, roof_ns, tail
from paceline.cost.ported.shares import forecasts_of, share_factor

__all__ = [
    "PRODUCTS",
    "Kernels",
    "by_rates_ns",
    "fill",
    "forecasts_of",
    "kernel_rows",
    "peak_ns",
    "ported_ns",
    "recorded_device",
    "roof_ns",
    "share_factor",
    "tail",
    "working_rows",
]
