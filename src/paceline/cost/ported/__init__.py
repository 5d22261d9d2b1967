"""Recorded kernels on another device: each keeps its share of what its device can do.

    ported_ns(kernels, origin, destination)    # durations there, one per kernel

`roof` says how long a work takes at the rates that a device achieves, `achieved.yaml` has these
rates with their sources, `port` carries durations over.
"""

from paceline.cost.ported.achieved import Achieved, achieved, rate_of, sheet
from paceline.cost.ported.port import Kernels, ported_ns
from paceline.cost.ported.recorded import kernel_rows, recorded_device, working_rows
from paceline.cost.ported.roof import PRODUCTS, fill, peak_ns, roof_ns, tail

__all__ = [
    "PRODUCTS",
    "Achieved",
    "Kernels",
    "achieved",
    "fill",
    "kernel_rows",
    "peak_ns",
    "ported_ns",
    "rate_of",
    "recorded_device",
    "roof_ns",
    "sheet",
    "tail",
    "working_rows",
]
