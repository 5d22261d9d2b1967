"""Operators by the shapes they are called with: how often, and how long each took."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from paceline.trace.readers.called import Called


@dataclass(frozen=True)
class Shaped:
    """Calls of one operator with the same inputs."""

    call: Called  # one of them: its shapes, strides, types and values
    count: int
    total_us: float  # on the host, what it calls included


def shapes_of(calls: Iterable[Called]) -> tuple[Shaped, ...]:
    """What takes most time first."""
    groups: dict[str, list[Called]] = defaultdict(list)
    for call in calls:
        groups[repr((call.name, call.dims, call.strides, call.types, call.values))].append(call)
    found = [Shaped(some[0], len(some), sum(c.dur_us for c in some)) for some in groups.values()]
    return tuple(sorted(found, key=lambda each: -each.total_us))
