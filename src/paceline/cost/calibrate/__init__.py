"""Measure this machine, fit latency and bandwidth with their confidence, and price by them."""

import os
import platform

from paceline.cost.calibrate import local
from paceline.cost.calibrate.result import Calibration, Overlap, Sweep, load, summary
from paceline.cost.calibrate.workers import all_reduce
from paceline.cost.errors import CostError


def calibrate(workers: int = 2, repeats: int = 15) -> Calibration:
    """GEMM, copy and element-wise sweeps; with two workers or more an all-reduce sweep as well."""
    if workers < 1 or repeats < 3:
        raise CostError(f"{workers} workers and {repeats} repeats: give 1 and 3 or more")
    import torch

    sweep, overlap = all_reduce(workers, repeats) if workers > 1 else (None, None)
    return Calibration(
        machine=f"{platform.machine()}-{os.cpu_count()}c",
        threads=torch.get_num_threads(),
        workers=workers,
        gemm=local.gemm(repeats),
        copy=local.copy(repeats),
        elementwise=local.elementwise(repeats),
        all_reduce=sweep,
        overlap=overlap,
    )


__all__ = ["Calibration", "Overlap", "Sweep", "calibrate", "load", "summary"]
