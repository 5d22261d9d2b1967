"""Every rank on one clock: offset and drift as communication proves them, and what is left open.

Nobody's part of a collective ends before its last member has started, and nothing is received
before its sending began. Each such pair bounds one rank's clock against another's from one side:

    start_s - end_r  <=  offset(t)  <=  end_s - start_r        (to be added to rank r's times)

The offset is a line in t (clocks drift), so all bounds together leave a convex set of lines. Its
lowest and highest value at both ends of the recording are the reported interval, and the middle
line is taken; if the zero line is among them, it is: ranks of one host share a clock. Where bounds
contradict each other, some stamps are wrong: the fewest that leave the rest in agreement go. The
interval also holds what any one wrong stamp that nothing contradicts may hide (see `strays`).

Members of a collective that devices run also end at nearly the same moment. A robust line through
the differences of their ends, give or take three median deviations, narrows the set where it agrees
with the bounds. Not so on hosts: threads that queue for a core end late, always the same ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from paceline.errors import TraceError
from paceline.graph import NONE
from paceline.trace.bounds import (
    Bounds,
    OffsetLine,
    Reach,
    bounds_between,
    counts,
    meetings_of,
    reach_of,
)
from paceline.trace.strays import farthest, one_less
from paceline.trace.trace import Int64, Trace

STEEPEST: Final = 200e-6
"""No two clocks drift apart faster: crystals keep 100 parts in a million."""

APART_NS: Final = 10_000_000
"""Bounds that contradict each other by more than this do not come from one job."""

STRAYS: Final = 0.2
"""Share of the bounds that may be wrong: on a crowded machine a thread may be put aside between
what it did and the stamp of it. A clock that is truly off breaks all bounds of one side, half of
them; ranks of two jobs a quarter or more."""


@dataclass(frozen=True)
class Clock:
    """What to add to one rank's times to have the reference's: `offset_ns + drift * (t - since)`.

    `interval_ns` is how far the truth may be from it to either side, at worst.
    """

    rank: int
    offset_ns: float
    drift: float
    since_ns: int
    interval_ns: float

    @property
    def known(self) -> bool:
        """False where no communication bounds it: then it is left as it is."""
        return self.interval_ns != float("inf")

    def at(self, moments: Int64) -> Int64:
        """The same moments on the reference clock."""
        shift = self.offset_ns + self.drift * (moments - self.since_ns).astype(np.float64)
        return moments + np.rint(shift).astype(np.int64)


@dataclass(frozen=True)
class Aligned:
    """Traces on one clock, and the clocks that brought them there."""

    traces: tuple[Trace, ...]
    clocks: tuple[Clock, ...]

    def facts(self) -> dict[str, Any]:
        """By rank, in words that fit a graph's meta."""
        return {
            str(clock.rank): {
                "offset_ns": round(clock.offset_ns),
                "drift_ppm": round(clock.drift * 1e6, 3),
                "interval_ns": round(clock.interval_ns) if clock.known else None,
            }
            for clock in self.clocks
        }


def align(traces: Sequence[Trace]) -> Aligned:
    """All traces on the clock of the first; ranks that share no communication stay as they are."""
    ordered = sorted(traces, key=lambda trace: trace.rank)
    clocks = clocks_of(ordered)
    moved = [shifted(trace, clock) for trace, clock in zip(ordered, clocks)]
    return Aligned(tuple(moved), tuple(clocks))


def clocks_of(traces: Sequence[Trace]) -> list[Clock]:
    """A clock for each trace, through the chain of ranks that bounds it best."""
    meetings = meetings_of(traces)
    since = min(int(trace.events.start_ns.min()) for trace in traces)
    until = max(int(trace.events.end_ns.max()) for trace in traces)
    found: dict[int, Clock] = {0: Clock(traces[0].rank, 0.0, 0.0, since, 0.0)}
    for there, here in _chain(counts(meetings, len(traces))):
        if here == NONE:
            found[there] = Clock(traces[there].rank, 0.0, 0.0, since, float("inf"))
            continue
        bounds = bounds_between(meetings, there, here)
        clock = _clock(traces[there], traces[here], bounds, since, until)
        found[there] = _chained(clock, found[here])
    return [found[number] for number in range(len(traces))]


def _chain(bounds: Int64) -> Iterator[tuple[int, int]]:
    """Every trace but the first, and through which of those before it it is set: each time the pair
    that the most bounds join. NONE where none do."""
    most, through = bounds[:, 0].copy(), np.zeros(len(bounds), np.int64)
    most[0] = NONE
    for _ in range(len(bounds) - 1):
        there = int(np.argmax(most))
        yield there, int(through[there]) if most[there] else NONE
        nearer = (bounds[:, there] > most) & (most != NONE)
        most[nearer], through[nearer] = bounds[nearer, there], there
        most[there] = NONE


def shifted(trace: Trace, clock: Clock) -> Trace:
    """The trace with all its times on the reference clock."""
    if not clock.offset_ns and not clock.drift:
        return trace
    events, steps, flows = trace.events, trace.steps, trace.flows
    marks = trace.allocations
    return replace(
        trace,
        events=replace(events, start_ns=clock.at(events.start_ns), end_ns=clock.at(events.end_ns)),
        steps=replace(steps, start_ns=clock.at(steps.start_ns), end_ns=clock.at(steps.end_ns)),
        flows=replace(flows, src_ns=clock.at(flows.src_ns), dst_ns=clock.at(flows.dst_ns)),
        allocations=replace(marks, at_ns=clock.at(marks.at_ns)),
    )


def _clock(trace: Trace, reference: Trace, bounds: Bounds, since: int, until: int) -> Clock:
    """One rank's clock against another's."""
    at = bounds.since(since)
    span = float(until - since)
    broken = at.broken_by(OffsetLine(0.0, 0.0))
    if _together(trace, reference) and 0 < (broken > 0.5).mean() <= STRAYS:
        return Clock(trace.rank, 0.0, 0.0, since, float(broken.max()))
    at, reach = _agreeing(at, span, f"{trace} and {reference}")
    strip = at.strip(span, STEEPEST)
    narrowed = reach_of(at.within(strip), span, STEEPEST)
    first = narrowed if narrowed and _apart(trace, reference) else reach
    unmoved = first.bounds.allow(OffsetLine(0.0, 0.0))
    line = OffsetLine(0.0, 0.0) if unmoved else _middle(narrowed or reach, span)
    chosen = first if unmoved else narrowed or reach
    edges = strip if chosen is narrowed else None
    doubts = [reach_of(some.within(edges), span, STEEPEST) for some in one_less(at)]
    return Clock(trace.rank, line.first, line.slope, since, farthest([chosen, *doubts], line, span))


def _agreeing(at: Bounds, span: float, who: str) -> tuple[Bounds, Reach]:
    """Bounds without those that contradict many others, and what they leave possible."""
    if (reach := reach_of(at, span, STEEPEST)) is not None:
        return at, reach
    slack, left = at.contradiction(STEEPEST), at.agreeing(STEEPEST)
    lost = 1 - (len(left.low) + len(left.high)) / (len(at.low) + len(at.high))
    if slack > APART_NS and not 0 < lost <= STRAYS:
        raise TraceError(
            f"{who} cannot be ranks of one job: their collectives contradict "
            f"each other by {slack / 1e6:.1f} ms on any clock. Import traces of one run"
        )
    reach = reach_of(left, span, STEEPEST)
    assert reach is not None
    return left, reach


def _together(trace: Trace, reference: Trace) -> bool:
    """Whether two ranks are known to run on one host, whose clock they share."""
    hosts = {t.facts.get("host_name") for t in (trace, reference)}
    return None not in hosts and len(hosts) == 1


def _apart(trace: Trace, reference: Trace) -> bool:
    """Whether two ranks are known to run on different hosts."""
    hosts = {t.facts.get("host_name") for t in (trace, reference)}
    return None not in hosts and len(hosts) == 2


def _middle(reach: Reach, span: float) -> OffsetLine:
    """The line through the middle of what is possible."""
    first = (reach.low_first + reach.high_first) / 2
    last = (reach.low_last + reach.high_last) / 2
    return OffsetLine(first, (last - first) / span)


def _chained(clock: Clock, through: Clock) -> Clock:
    """The clock against the reference, where it was found against a third rank's."""
    return replace(
        clock,
        offset_ns=clock.offset_ns + through.offset_ns,
        drift=clock.drift + through.drift,
        interval_ns=clock.interval_ns + through.interval_ns,
    )
