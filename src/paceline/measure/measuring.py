"""`measure`: sweeps of this machine's processors, its all-reduce, and what sharing cores costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from paceline.graph.variants import Ratio, Variant
from paceline.machine import take_pulse, this_machine, typical_pulse
from paceline.measure import local
from paceline.measure.calibration import Calibration, Sweep
from paceline.measure.codec_times import CodecTimes, OpTimes
from paceline.measure.constant import Constant
from paceline.measure.errors import MeasureError
from paceline.measure.handling import Handling
from paceline.measure.in_lab import InLab
from paceline.measure.recorded_calls import recorded_calls
from paceline.measure.reducing import Reduced, all_reduce
from paceline.measure.shared_cores import SharedCores
from paceline.measure.sharing import shared_cores

TRIES = 5
_PULSES = 5  # before and after

CodecTimer = Callable[[int], tuple[CodecTimes, ...]]
"""Times codecs, by how often each is run."""


@dataclass(frozen=True)
class ForJob:
    """A recording whose operators are measured in other variants too."""

    recording: Path
    compiled: bool = False  # also as torch.compile generates them, which takes minutes
    more: Mapping[Variant, Any] = field(default_factory=dict)  # as `torch_ratios.Changes`


@dataclass(frozen=True)
class Also:
    """What is measured beside the sweeps: with a lab what communication takes of the cores that all
    workers share, with timers of codecs what each takes to pack and unpack gradients, alone and
    while every core does the same, with another what the border between two stages takes, with a
    recorded job how its own operators run in other variants, with carriers of messages what these
    take of a worker's processor, with a transport of datagrams what a byte of it does where workers
    share the cores."""

    in_lab: InLab | None = None
    codecs: CodecTimer | None = None
    crowded_codecs: CodecTimer | None = None
    borders: Callable[[int], tuple[OpTimes, ...]] | None = None
    job: ForJob | None = None
    handling: Callable[[], Handling] | None = None
    datagrams: Callable[[InLab], Constant] | None = None


def measure(workers: int = 2, repeats: int = 15, also: Also | None = None) -> Calibration:
    """GEMM, copy and element-wise sweeps; with two workers or more an all-reduce sweep as well."""
    also = also or Also()
    if workers < 1 or repeats < 3:
        raise MeasureError(f"{workers} workers and {repeats} repeats: give 1 and 3 or more")
    import torch

    others: list[Reduced] = []
    before = [take_pulse() for _ in range(_PULSES)]

    def reducing() -> Sweep:
        others.append(all_reduce(workers, repeats))
        return others[-1].sweep

    found = Calibration(
        machine=this_machine(),
        threads=torch.get_num_threads(),
        workers=workers,
        gemm=_fitting(lambda: local.gemm(repeats)),
        copy=_fitting(lambda: local.copy(repeats)),
        elementwise=_fitting(lambda: local.elementwise(repeats)),
        all_reduce=_fitting(reducing) if workers > 1 else None,
        overlap=others[-1].overlap if others else None,
        shared=_shared(also, also.in_lab) if also.in_lab else None,
        ratios=_ratios(also.job) if also.job else (),
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        codecs=also.codecs(repeats) if also.codecs else (),
        crowded_codecs=also.crowded_codecs(repeats) if also.crowded_codecs else (),
        borders=also.borders(repeats) if also.borders else (),
        adding=others[-1].adding if others else (),
        handling=also.handling() if also.handling else None,
    )
    after = [take_pulse() for _ in range(_PULSES)]
    return replace(found, pulse=typical_pulse([*before, *after]))


def _shared(also: Also, in_lab: InLab) -> SharedCores:
    found = shared_cores(in_lab)
    if also.datagrams is None:
        return found
    return replace(found, datagram_ns_per_byte=also.datagrams(in_lab))


def _ratios(job: ForJob) -> tuple[Ratio, ...]:
    from paceline.measure.torch_ratios import job_ratios

    calls = recorded_calls(job.recording)
    return job_ratios(calls, compiled=job.compiled, more=job.more)


def _fitting(measured: Callable[[], Sweep]) -> Sweep:
    """A sweep through which a line fits: measured again where the machine was too busy for it."""
    for _ in range(TRIES - 1):
        sweep = measured()
        if sweep.grows:
            return sweep
    return measured()
