"""Durations of kernels by roofline. Recorded ones are carried over by `cost.ported`."""

from paceline.cost.compute.roofline import TYPICAL, Efficiency, peak, roofline_ns

__all__ = ["TYPICAL", "Efficiency", "peak", "roofline_ns"]
