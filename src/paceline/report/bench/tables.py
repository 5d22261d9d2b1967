"""Rows of text from a sweep's points; the terminal and Markdown show the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from paceline.analyse.structure import NAMES
from paceline.bench.against import Against
from paceline.bench.lessons import fits, over_batches
from paceline.bench.point import Point, Reached, Report, Unfit, curves
from paceline.bench.workload import Workload
from paceline.report.text.quantities import duration, size


@dataclass(frozen=True)
class Cells:
    """A table: its columns' names, and rows of as many texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


SPEED: Final = ("workers", "batch", "step", "samples/s", "computes", "communicates", "loads",
                "queues", "rest", "cores", "of peak")  # fmt: skip
MEMORY: Final = ("workers", "batch", "peak", *NAMES.values(), "reached at")


def speed(points: Sequence[Point]) -> Cells:
    """What a step is spent on, and what it makes of the machine."""
    return Cells(SPEED, tuple(map(_speed, points)))


def memory(points: Sequence[Point]) -> Cells:
    """The peak by structure."""
    rows = (_memory(point) for point in points)
    return Cells(MEMORY, tuple(row for row in rows if row))


def classes(point: Point) -> Cells:
    """Operators by class against the machine's measured peaks."""
    rows = point.efficiency.classes if point.efficiency else ()
    cells = (
        (row.name, f"{row.calls:,}", percent(row.share),
         f"{row.flops_per_s / 1e9:.1f}" if row.known else "",
         f"{row.bytes_per_s / 1e9:.1f}" if row.known else "",
         percent(row.of_peak) if row.of_peak else "")
        for row in rows
    )  # fmt: skip
    head = ("operators", "calls", "time", "GFLOP/s", "GB/s", "of peak")
    return Cells(head, tuple(cells))


def reached(rows: Sequence[Reached]) -> Cells:
    """Trainings to their quality."""
    cells = (
        (row.workload, str(row.workers), str(row.batch), row.metric, f"{row.quality:.4g}",
         f"{row.target:g}", "yes" if row.reached else "no", f"{row.steps:,}", f"{row.seconds:.0f}")
        for row in rows
    )  # fmt: skip
    head = ("workload", "workers", "batch", "quality", "is", "target", "reached", "steps",
            "seconds")  # fmt: skip
    return Cells(head, tuple(cells))


def suite(workloads: Sequence[Workload]) -> Cells:
    """What there is."""
    cells = (
        (each.name, each.domain.value, each.model, each.data,
         f"{each.quality.metric} {'>=' if each.quality.at_least else '<='} "
         f"{each.quality.target:g}", each.spread.value)
        for each in workloads
    )  # fmt: skip
    return Cells(("workload", "domain", "model", "data", "good enough", "on many workers"),
                 tuple(cells))  # fmt: skip


def compared(found: Against) -> Cells:
    """Second over first."""
    cells = (
        (pair.key.workload, str(pair.key.workers), str(pair.key.batch), f"{pair.throughput:.2f}",
         f"{pair.peak_bytes:.2f}" if pair.peak_bytes is not None else "",
         f"{percent(pair.of_peak[0])} -> {percent(pair.of_peak[1])}")
        for pair in found.pairs
    )  # fmt: skip
    head = ("workload", "workers", "batch", "throughput", "memory peak", "of peak")
    return Cells(head, tuple(cells))


def words(report: Report, name: str) -> list[str]:
    """What follows from one workload's points: of the largest batch, and over all of them."""
    points, said = report.of(name), list[str]()
    for curve in curves(points):
        unfit = [each for each in report.unfit if _of_curve(each, curve)]
        said += [each.text for each in over_batches(curve, unfit)]
        said += [f"batch {curve[-1].key.batch}: {each.text}" for each in curve[-1].observations]
    return said


def left_out(report: Report) -> list[str]:
    """What has no table: workloads of which no batch fits, and what could not be measured."""
    known = {(point.key.workload, point.key.workers) for point in report.points}
    lost = (u for u in report.unfit if (u.key.workload, u.key.workers) not in known)
    said = [f"{each.key.workload}, workers {each.key.workers}: {fits(each)}" for each in lost]
    return said + [f"not measured: {what}: {why}" for what, why in report.failed]


def _of_curve(unfit: Unfit, curve: Sequence[Point]) -> bool:
    key = curve[0].key
    return (unfit.key.workload, unfit.key.workers) == (key.workload, key.workers)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _speed(point: Point) -> tuple[str, ...]:
    used = point.usage
    return (
        str(point.key.workers),
        str(point.key.batch),
        duration(used.step_ns),
        f"{point.throughput:,.0f}",
        *map(percent, (used.compute, used.communication, used.data, used.queued, used.rest)),
        percent(used.cpu) if used.cpu is not None else "",
        percent(point.of_peak) if point.of_peak else "",
    )


def _memory(point: Point) -> tuple[str, ...]:
    held = point.structure
    if held is None:
        return ()
    parts = (size(held.parts[name]) if name in held.parts else "" for name in NAMES.values())
    key = point.key
    return (str(key.workers), str(key.batch), size(held.peak_bytes), *parts, held.place)
