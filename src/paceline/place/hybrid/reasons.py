"""Why a plan is as it is: each of its settings beside the next smaller and larger ones.

A neighbour differs in one setting alone (the data degree follows); it does not fit, or is slower,
or holds more, and the reason says by how much and where the time goes.
"""

from dataclasses import dataclass
from typing import Any

from paceline.imagine.decoder import fullest
from paceline.place.hybrid.question import AXES, settings_of
from paceline.place.hybrid.search import Search
from paceline.place.hybrid.step import Priced, price


@dataclass(frozen=True)
class Reason:
    """One setting that was chosen, and what another one would have cost."""

    axis: str
    chosen: str
    other: str
    text: str


def reasons(search: Search, plan: Priced) -> tuple[Reason, ...]:
    """For each axis of a plan that had a choice."""
    mine = settings_of(plan.job)
    found: list[Reason] = []
    for axis in AXES:
        for value in _neighbours(search, mine, axis):
            job = search.jobs[tuple({**mine, axis: value}.values())]
            text = _against(search, plan, price_or_peak(search, job))
            found.append(Reason(axis, _shown(mine[axis]), _shown(value), text))
    return tuple(found)


def price_or_peak(search: Search, job: Any) -> Priced | int:
    """The plan priced; or, where it does not fit, its bytes."""
    total = fullest(job).total
    return total if total > search.question.memory_bytes else price(job, search.question.prices())


def _neighbours(search: Search, mine: dict[str, object], axis: str) -> list[object]:
    """The next smaller and larger values, or all others where values are words."""
    others = [key for key in search.jobs if _differs_in(key, mine, axis)]
    values = [key[AXES.index(axis)] for key in others]
    counts = sorted(value for value in values if isinstance(value, int))
    own = mine[axis]
    if not isinstance(own, int):
        return values
    return [*[n for n in counts if n < own][-1:], *[n for n in counts if n > own][:1]]


def _differs_in(key: tuple[object, ...], mine: dict[str, object], axis: str) -> bool:
    return all((one == mine[name]) == (name != axis) for name, one in zip(AXES, key))


def _against(search: Search, plan: Priced, other: Priced | int) -> str:
    if isinstance(other, int):
        return f"does not fit: {other / 1e9:.1f} GB of {search.question.memory_bytes / 1e9:.1f}"
    slower = other.step_ns / plan.step_ns - 1
    parts = sorted(
        ((name, other.parts[name] - plan.parts[name]) for name in plan.parts),
        key=lambda one: -one[1] if slower >= 0 else one[1],
    )
    name, more = parts[0]
    held = other.peak.total / plan.peak.total - 1
    verdict = f"{abs(slower):.1%} {'slower' if slower >= 0 else 'faster'}"
    return f"{verdict} ({name} {more / plan.step_ns:+.1%}), memory {held:+.0%}"


def _shown(value: object) -> str:
    return str(getattr(value, "value", value))
