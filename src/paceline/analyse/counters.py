"""Hardware counters, where a trace has them: each counter's sum and mean over its ranges."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from paceline.trace.readers.called import Counted


@dataclass(frozen=True)
class Counter:
    """One counter over the ranges of one name: kernels, or what the profiler measured around."""

    range_name: str
    counter: str
    count: int
    total: float

    @property
    def mean(self) -> float:
        return self.total / self.count


def counters_of(ranges: Iterable[Counted]) -> tuple[Counter, ...]:
    """In order of range and counter."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in ranges:
        for counter, value in each.values.items():
            found[each.name, counter].append(value)
    return tuple(
        Counter(name, counter, len(values), sum(values))
        for (name, counter), values in sorted(found.items())
    )
