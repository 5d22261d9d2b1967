"""Measure this machine, fit latency and bandwidth with their confidence, and price by them."""

import os
import platform
from collections.abc import Callable

from paceline.cost.calibrate import local
from paceline.cost.calibrate.result import Calibration, Overlap, Sweep, load, summary
from paceline.cost.calibrate.workers import all_reduce
from paceline.cost.errors import CostError

TRIES = 5


def calibrate(workers: int = 2, repeats: int = 15) -> Calibration:
    """GEMM, copy and element-wise sweeps; with two workers or more an all-reduce sweep as well."""
    if workers < 1 or repeats < 3:
        raise CostError(f"{workers} workers and {repeats} repeats: give 1 and 3 or more")
    import torch

    overlaps: list[Overlap] = []

    def reducing() -> Sweep:
        sweep, overlap = all_reduce(workers, repeats)
        overlaps.append(overlap)
        return sweep

    return Calibration(
        machine=f"{platform.machine()}-{os.cpu_count()}c",
        threads=torch.get_num_threads(),
        workers=workers,
        gemm=_fitting(lambda: local.gemm(repeats)),
        copy=_fitting(lambda: local.copy(repeats)),
        elementwise=_fitting(lambda: local.elementwise(repeats)),
        all_reduce=_fitting(reducing) if workers > 1 else None,
        overlap=overlaps[-1] if overlaps else None,
    )


def _fitting(measure: Callable[[], Sweep]) -> Sweep:
    """A sweep through which a line fits: measured again where the machine was too busy for it."""
    for _ in range(TRIES - 1):
        sweep = measure()
        if sweep.grows:
            return sweep
    return measure()


__all__ = ["Calibration", "Overlap", "Sweep", "calibrate", "load", "summary"]
