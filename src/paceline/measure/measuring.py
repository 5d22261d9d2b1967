"""`measure`: sweeps of this machine's processors, its all-reduce, and what sharing cores costs."""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from paceline.graph.variants import Ratio
from paceline.measure import local
from paceline.measure.calibration import Calibration, Overlap, Sweep
from paceline.measure.errors import MeasureError
from paceline.measure.recorded_calls import recorded_job
from paceline.measure.reducing import all_reduce
from paceline.measure.sharing import InLab, shared_cores

TRIES = 5


@dataclass(frozen=True)
class ForJob:
    """A recording whose operators are measured in other variants too."""

    recording: Path
    compiled: bool = False  # also as torch.compile generates them, which takes minutes


def measure(
    workers: int = 2, repeats: int = 15, in_lab: InLab | None = None, job: ForJob | None = None
) -> Calibration:
    """GEMM, copy and element-wise sweeps; with two workers or more an all-reduce sweep as well;
    with a lab what communication takes of the cores that all workers share; with a recorded job
    how its own operators run in other variants."""
    if workers < 1 or repeats < 3:
        raise MeasureError(f"{workers} workers and {repeats} repeats: give 1 and 3 or more")
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
        shared=shared_cores(in_lab) if in_lab else None,
        ratios=_ratios(job) if job else (),
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _ratios(job: ForJob) -> tuple[Ratio, ...]:
    from paceline.measure.torch_ratios import job_ratios

    return job_ratios(recorded_job(job.recording), compiled=job.compiled)


def _fitting(measured: Callable[[], Sweep]) -> Sweep:
    """A sweep through which a line fits: measured again where the machine was too busy for it."""
    for _ in range(TRIES - 1):
        sweep = measured()
        if sweep.grows:
            return sweep
    return measured()
