"""Two reports, of two machines or two versions: what one has against the other, point by point."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from paceline.bench.errors import BenchError
from paceline.bench.point import Key, Point, Report


@dataclass(frozen=True)
class PointPair:
    """One measurement that both reports have; ratios are of the second over the first."""

    key: Key
    throughput: float
    peak_bytes: float | None  # None where one does not know its memory
    of_peak: tuple[float, float]


@dataclass(frozen=True)
class Against:
    """Both reports' common points."""

    machines: tuple[str, str]
    versions: dict[str, tuple[str, str]]  # those that differ
    rate: float | None  # of float32 products at best, second over first
    pairs: tuple[PointPair, ...]
    only_first: tuple[Key, ...]
    only_second: tuple[Key, ...]

    @property
    def throughput(self) -> float:
        """The geometric mean of all pairs."""
        return geometric_mean([pair.throughput for pair in self.pairs])


def against(first: Report, second: Report) -> Against:
    before = {point.key: point for point in first.points}
    after = {point.key: point for point in second.points}
    both = [key for key in before if key in after]
    if not both:
        raise BenchError(
            "the reports have no point in common: the first has "
            f"{_listed(list(before))}, the second {_listed(list(after))}. Run both with the same "
            "workloads, batch sizes and workers"
        )
    return Against(
        machines=(first.machine, second.machine),
        versions=_differing(first, second),
        rate=_rate(first, second),
        pairs=tuple(_pair(before[key], after[key]) for key in both),
        only_first=tuple(key for key in before if key not in after),
        only_second=tuple(key for key in after if key not in before),
    )


def _pair(first: Point, second: Point) -> PointPair:
    held = None
    if first.structure is not None and second.structure is not None:
        held = second.structure.peak_bytes / first.structure.peak_bytes
    ratio = second.throughput / first.throughput
    return PointPair(first.key, ratio, held, (first.of_peak, second.of_peak))


def _rate(first: Report, second: Report) -> float | None:
    rates = [each.flops_per_s.get("float32") for each in (first, second)]
    return rates[1] / rates[0] if rates[0] and rates[1] else None


def _differing(first: Report, second: Report) -> dict[str, tuple[str, str]]:
    names = sorted({*first.versions, *second.versions})
    pairs = {n: (first.versions.get(n, "?"), second.versions.get(n, "?")) for n in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _listed(keys: Sequence[Key]) -> str:
    shown = "; ".join(str(key) for key in keys[:3])
    return f"{shown}{' and more' if len(keys) > 3 else ''}" if keys else "none"
