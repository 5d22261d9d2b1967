"""What a sweep's folder holds of what is asked for: what it lacks, and the report of the rest."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

from paceline.bench.asked import Sweep, to_quality, versions
from paceline.bench.kept import KeptRow, rows
from paceline.bench.point import Key, Report, Unfit
from paceline.measure.peaks import Peaks

_MORE: Final = 1.1  # times the memory: what did not fit is tried again


def is_settled(key: Key, kept: Iterable[KeptRow], limit: int) -> bool:
    """Whether it was measured, or is known not to fit in about as much memory."""
    known = list(kept)
    if any(row.point is not None and row.point.key == key for row in known):
        return True
    beyond = (row.unfit for row in known if row.unfit is not None and _beyond(key, row.unfit))
    return any(limit <= _MORE * unfit.limit_bytes for unfit in beyond)


def _beyond(key: Key, unfit: Unfit) -> bool:
    same = (unfit.key.workload, unfit.key.workers) == (key.workload, key.workers)
    return same and key.batch >= unfit.key.batch


def report_of(
    sweep: Sweep, wanted: Sequence[Key], peaks: Peaks, failed: Mapping[str, str]
) -> Report:
    """What the sweep's folder holds of what is wanted."""
    kept, asked = list(rows(sweep.folder, sweep.setting)), set(wanted)
    trained = rows(sweep.folder, to_quality(sweep).setting)
    names = {key.workload for key in wanted}
    points = {row.point.key: row.point for row in kept if row.point}
    unfit = [row.unfit for row in kept if row.unfit and row.unfit.key not in points]
    return Report(
        machine=peaks.machine,
        versions=versions(),
        flops_per_s=dict(peaks.flops_per_s),
        memory_bytes_per_s=peaks.memory_bytes_per_s,
        points=tuple(point for key, point in points.items() if key in asked),
        unfit=_unfit(unfit, asked - set(points)),
        reached=tuple(r.reached for r in trained if r.reached and r.reached.workload in names),
        failed=tuple(failed.items()),
    )


def _unfit(known: Sequence[Unfit], lost: Set[Key]) -> tuple[Unfit, ...]:
    """Of each workload the last word on the smallest batch that leaves a lost one no room."""
    found = {each.key: each for each in known if any(_beyond(key, each) for key in lost)}
    least: dict[tuple[str, int], Unfit] = {}
    for each in sorted(found.values(), key=lambda each: each.key.batch):
        least.setdefault((each.key.workload, each.key.workers), each)
    return tuple(least.values())
