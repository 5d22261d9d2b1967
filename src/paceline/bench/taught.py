"""What a sweep over several workloads taught, in the manner of TBD's observations: sentences that
follow from its points, one rule a function, each with the command that shows it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from paceline.bench.lessons import GROWS, saturation
from paceline.bench.point import Point, Report, curves

LOOP, POPULATION = "spiking", "spiking_population"
"""The same task, over time steps and in one step."""
_APART: Final = 2.0  # times: operators that lie nearer are alike


@dataclass(frozen=True)
class Taught:
    text: str
    command: str


Curves = Sequence[Sequence[Point]]
"""Of each workload, on its fewest workers."""

Told = tuple[float, Point]
"""A figure, and of which point."""


def taught(report: Report) -> tuple[Taught, ...]:
    """Nothing of a sweep over one workload."""
    alone = [curves(report.of(name))[0] for name in report.workloads]
    if len(alone) < 2:
        return ()
    said = [rule(alone) for rule in RULES]
    said += [_share(what, share, _best(alone)) for what, share in SHARES.items()]
    said.append(together(report))
    return tuple(each for each in said if each is not None)


def saturating(found: Curves) -> Taught | None:
    """Where a larger batch stops to pay."""
    longer = [curve for curve in found if len(curve) > 1]
    grows = [_name(curve) for curve in longer if saturation(curve) is curve[-1]]
    ends = {_name(c): saturation(c).key.batch for c in longer if saturation(c) is not c[-1]}
    if not longer:
        return None
    listed = ", ".join(f"{name} at {batch}" for name, batch in ends.items())
    text = f"{len(ends)} of {len(longer)} workloads saturate at a batch below the largest tried"
    text += f" ({listed})" if ends else ""
    text += f"; the throughput of {', '.join(grows)} still grows there" if grows else ""
    return Taught(text, _run([_name(curve) for curve in longer]))


def holding(found: Curves) -> Taught | None:
    """Which structure makes the peak, of how many, at the largest batch."""
    largest: dict[str, list[str]] = defaultdict(list)
    for curve in found:
        held = curve[-1].structure
        if held is not None:
            largest[held.largest].append(_name(curve))
    if not largest:
        return None
    named = sorted(largest.items(), key=lambda item: -len(item[1]))
    told = "; ".join(f"{name} of {len(of)} ({', '.join(of)})" for name, of in named)
    return Taught(f"the memory peak at the largest batch is mostly {told}",
                  _run([_name(curve) for curve in found]))  # fmt: skip


def peaking(found: Curves) -> Taught | None:
    """In which phase the peak lies."""
    phases: dict[str, list[str]] = defaultdict(list)
    for curve in found:
        held = curve[-1].structure
        if held is not None:
            phases[held.phase].append(_name(curve))
    if len(phases) < 2:
        return None
    told = "; ".join(f"{phase}: {', '.join(names)}" for phase, names in sorted(phases.items()))
    return Taught(f"the phase in which most memory is held differs ({told})",
                  _run([_name(curve) for curve in found]))  # fmt: skip


def dispatching(found: Curves) -> Taught | None:
    """Steps of small operators are paid for by their number."""
    known = [
        (point.usage.compute * point.usage.step_ns / point.usage.operators, point)
        for point in _best(found)
        if point.usage.operators
    ]
    if not known or max(known, key=_figure)[0] < _APART * min(known, key=_figure)[0]:
        return None
    return _between("time of a mean operator", known, lambda ns: f"{ns / 1e3:.0f} us")


def replacing_time(found: Curves) -> Taught | None:
    """At the largest batch that both have."""
    both = {_name(c): {p.key.batch: p for p in c} for c in found if _name(c) in (LOOP, POPULATION)}
    shared = set.intersection(*(set(points) for points in both.values())) if len(both) == 2 else ()
    if not shared:
        return None
    batch = max(shared)
    times = both[POPULATION][batch].throughput / both[LOOP][batch].throughput
    return Taught(
        f"a population of neurons trains {times:.1f} times as many samples a second as time steps "
        f"do at batch {batch}",
        _run([LOOP, POPULATION]),
    )


RULES: Final[tuple[Callable[[Curves], Taught | None], ...]] = (
    saturating,
    holding,
    peaking,
    dispatching,
    replacing_time,
)


def _activations(point: Point) -> float | None:
    return point.structure.share("activations") if point.structure else None


SHARES: Final[dict[str, Callable[[Point], float | None]]] = {
    "share of the machine's peak": lambda point: point.of_peak or None,
    "activations' share of the memory peak": _activations,
    "time in which an operator computes": lambda point: point.usage.compute,
    "time of loading data": lambda point: point.usage.data,
    "the optimizer's part of the work": lambda point: point.usage.update,
}
"""Where throughput saturates: one workload says nothing of another."""


def together(report: Report) -> Taught | None:
    """What several workers bring: their throughput over that of one, at the same batch each."""
    points = {point.key: point for point in report.points}
    many = max((key.workers for key in points), default=1)
    pairs = [(points.get(replace(key, workers=1)), point) for key, point in points.items()
             if key.workers == many > 1]  # fmt: skip
    gains = [(both.throughput / one.throughput, both) for one, both in pairs if one is not None]
    if len(gains) < 2:
        return None
    what = f"throughput of {many} workers over that of one"
    found = _between(what, gains, lambda times: f"{times:.2f} times")
    return Taught(found.text, f"{found.command} --workers 1 {many}")


def _share(
    what: str, share: Callable[[Point], float | None], points: Sequence[Point]
) -> Taught | None:
    """Where it lies apart."""
    known = [(value, point) for point in points if (value := share(point)) is not None]
    if not known or max(known, key=_figure)[0] - min(known, key=_figure)[0] < GROWS:
        return None
    return _between(what, known, lambda value: f"{100 * value:.0f} %")


def _between(what: str, known: Sequence[Told], shown: Callable[[float], str]) -> Taught:
    """The least and the most of a figure, and whose they are."""
    ordered = sorted(known, key=_figure)
    (low, least), (high, most) = ordered[0], ordered[-1]
    ends = f"from {shown(low)} ({least.key.workload}) to {shown(high)} ({most.key.workload})"
    middle = shown(median(value for value, _ in known))
    text = f"{what}: {ends}, in the median {middle}"
    return Taught(text, _run([least.key.workload, most.key.workload]))


def _figure(told: Told) -> float:
    return told[0]


def _best(found: Curves) -> list[Point]:
    """Each workload where its throughput saturates."""
    return [saturation(curve) for curve in found]


def _name(curve: Sequence[Point]) -> str:
    return curve[0].key.workload


def _run(names: Iterable[str]) -> str:
    return f"paceline bench run {' '.join(dict.fromkeys(names))}"
