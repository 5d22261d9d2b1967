"""Two-way bounds on one clock against another, and the set of lines that they leave possible."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE
from paceline.trace.trace import Bool, Category, Int64, Trace

Float = NDArray[np.float64]
Curve = Callable[[float], float]
_HALVINGS: Final = 60
"""Bisections of the drift: far below a billionth of its range."""

_FEW: Final = 5
"""With fewer meetings the differences of ends say nothing about their spread."""


@dataclass(frozen=True, eq=False)
class Meetings:
    """One row a member of a communication; rows with equal `key` met."""

    trace: Int64  # number of the trace, ascending
    key: Int64
    start_ns: Int64
    end_ns: Int64
    sends: Bool  # one-way: a sending side does not wait for the other
    on_device: Bool  # run by a device: no host thread had to queue for a core before it ended

    def of(self, number: int) -> Int64:
        """The rows of a trace."""
        first, last = np.searchsorted(self.trace, [number, number + 1])
        return np.arange(first, last)


@dataclass(frozen=True)
class OffsetLine:
    """offset(t) = first + slope * t, t in ns since the recording began."""

    first: float
    slope: float


@dataclass(frozen=True)
class Reach:
    """Lowest and highest possible offset at the first and the last moment; in ns."""

    low_first: float
    high_first: float
    low_last: float
    high_last: float
    bounds: "Bounds"


@dataclass(frozen=True, eq=False)
class Bounds:
    """low <= offset(low_at), offset(high_at) <= high; and differences of ends."""

    low_at: Float
    low: Float
    high_at: Float
    high: Float
    end_at: Float
    end_gap: Float

    def __len__(self) -> int:
        return min(len(self.low), len(self.high))

    def since(self, origin: int) -> "Bounds":
        """The same with moments counted from the recording's begin."""
        moved = (self.low_at - origin, self.high_at - origin, self.end_at - origin)
        return Bounds(moved[0], self.low, moved[1], self.high, moved[2], self.end_gap)

    def agreeing(self, steepest: float) -> "Bounds":
        """Without the fewest bounds whose loss leaves the others in agreement; where nothing would
        be left on one side, all are loosened instead."""
        left = self
        while (slack := left.contradiction(steepest)) > 0:
            slope = left.best_slope(steepest)
            low, high = left.low - slope * left.low_at, left.high - slope * left.high_at
            if low.min() > high.max():
                return left._loosened(slack + 1)
            value = _least_broken(low, high)
            left = left.keeping(low <= value, high >= value)
        return left

    def _loosened(self, slack: float) -> "Bounds":
        low, high = self.low - slack, self.high + slack
        return Bounds(self.low_at, low, self.high_at, high, self.end_at, self.end_gap)

    def keeping(self, low: Bool, high: Bool) -> "Bounds":
        """The chosen bounds of each side."""
        lows = (self.low_at[low], self.low[low])
        return Bounds(*lows, self.high_at[high], self.high[high], self.end_at, self.end_gap)

    def allow(self, line: OffsetLine) -> bool:
        return bool((self.broken_by(line) <= 0.5).all())

    def broken_by(self, line: OffsetLine) -> Float:
        """By how much the line breaks each of the bounds; 0 or less where it keeps it."""
        low = self.low - line.first - line.slope * self.low_at
        high = line.first + line.slope * self.high_at - self.high
        return np.concatenate([low, high])

    def room(self, slope: float) -> tuple[float, float]:
        """Lowest and highest value at t = 0 of a line with the slope."""
        return self.floor(slope), self.ceiling(slope)

    def floor(self, slope: float) -> float:
        return float((self.low - slope * self.low_at).max())

    def ceiling(self, slope: float) -> float:
        return float((self.high - slope * self.high_at).min())

    def contradiction(self, steepest: float) -> float:
        """By how much the bounds contradict each other, with the best drift; 0 or less for none."""
        low, high = self.room(self.best_slope(steepest))
        return low - high

    def best_slope(self, steepest: float) -> float:
        """The drift that leaves most room: the room is concave in it."""
        left, right = -steepest, steepest
        for _ in range(_HALVINGS):
            third = (right - left) / 3
            a, b = left + third, right - third
            if _width(self, a) < _width(self, b):
                left = a
            else:
                right = b
        return (left + right) / 2

    def strip(self, span: float, steepest: float) -> "Strip | None":
        """Where the differences of the members' ends lie, if there are enough of them."""
        if len(self.end_gap) < _FEW:
            return None
        line = _robust_line(self.end_at, self.end_gap, steepest)
        off = np.abs(self.end_gap - line.first - line.slope * self.end_at)
        slack = 3 * float(np.median(off)) + 1
        edges = np.array([0.0, span])
        middle = line.first + line.slope * edges
        return Strip(edges, middle - slack, middle + slack)

    def within(self, strip: "Strip | None") -> "Bounds":
        """Narrowed to the strip."""
        if strip is None:
            return self
        return Bounds(
            np.append(self.low_at, strip.at),
            np.append(self.low, strip.low),
            np.append(self.high_at, strip.at),
            np.append(self.high, strip.high),
            self.end_at,
            self.end_gap,
        )


@dataclass(frozen=True, eq=False)
class Strip:
    """Bounds at the first and the last moment, about a line."""

    at: Float
    low: Float
    high: Float


def meetings_of(traces: Sequence[Trace]) -> Meetings:
    """Every communication that at least two traces know by the same group and number."""
    keys: dict[tuple[object, ...], int] = {}
    rows = [row for number, trace in enumerate(traces) for row in _rows(number, trace, keys)]
    table = np.array(rows, np.int64).reshape(-1, 6).T
    trace, key, start, end, sends, on_device = table
    return Meetings(trace, key, start, end, sends == 1, on_device == 1)


def counts(meetings: Meetings, traces: int) -> Int64:
    """How many bounds there are for each trace's clock against each other's: the length of what
    `bounds_between` gives."""
    found = np.zeros((traces, traces), np.int64)
    order = np.lexsort((meetings.trace, meetings.key))
    who, waits = meetings.trace[order], ~meetings.sends[order]
    borders = np.flatnonzero(np.diff(meetings.key[order])) + 1
    met = Counter(
        (mine.tobytes(), waiting.tobytes())
        for mine, waiting in zip(np.split(who, borders), np.split(waits, borders))
    )
    for (mine, waiting), times in met.items():
        members, may = np.frombuffer(mine, np.int64), np.frombuffer(waiting, np.bool_)
        found[np.ix_(members[may], members)] += times
    return np.minimum(found, found.T)


def bounds_between(meetings: Meetings, mine: int, other: int) -> Bounds:
    """What bounds `mine`'s clock against `other`'s; times are on each one's own clock."""
    a, b = (meetings.of(number) for number in (mine, other))
    _, at_a, at_b = np.intersect1d(meetings.key[a], meetings.key[b], return_indices=True)
    a, b = a[at_a], b[at_b]
    start, end = meetings.start_ns, meetings.end_ns
    waits_a, waits_b = ~meetings.sends[a], ~meetings.sends[b]
    both = waits_a & waits_b & meetings.on_device[a] & meetings.on_device[b]
    return Bounds(
        end[a][waits_a].astype(np.float64),
        (start[b] - end[a])[waits_a].astype(np.float64),
        start[a][waits_b].astype(np.float64),
        (end[b] - start[a])[waits_b].astype(np.float64),
        end[a][both].astype(np.float64),
        (end[b] - end[a])[both].astype(np.float64),
    )


def reach_of(bounds: Bounds, span: float, steepest: float) -> Reach | None:
    """What the bounds leave possible; None where no line fits."""
    best = bounds.best_slope(steepest)
    if _width(bounds, best) < 0:
        return None
    low, high = _edge(bounds, best, -steepest), _edge(bounds, best, steepest)
    return Reach(
        -_highest(lambda slope: -bounds.floor(slope), low, high),
        _highest(bounds.ceiling, low, high),
        -_highest(lambda slope: -(bounds.floor(slope) + slope * span), low, high),
        _highest(lambda slope: bounds.ceiling(slope) + slope * span, low, high),
        bounds,
    )


def _rows(number: int, trace: Trace, keys: dict[tuple[object, ...], int]) -> list[tuple[int, ...]]:
    collectives, events = trace.collectives, trace.events
    seen: dict[tuple[object, ...], int] = {}
    rows: list[tuple[int, ...]] = []
    shown = (collectives.event != NONE) & ~collectives.peerless
    order = np.argsort(events.start_ns[np.maximum(collectives.event, 0)], kind="stable")
    shown_in_order = order[shown[order]]
    event = collectives.event[shown_in_order]
    columns = (
        shown_in_order,
        _steps(trace, event),
        events.start_ns[event],
        events.end_ns[event],
        collectives.sends[shown_in_order],
        events.category[event] == Category.KERNEL,
    )
    for row, step, start, end, sends, on_device in zip(*(each.tolist() for each in columns)):
        key = keys.setdefault(_key(trace, row, step, seen), len(keys))
        rows.append((number, key, start, end, int(sends), int(on_device)))
    return rows


def _key(
    trace: Trace, row: int, step: int, seen: dict[tuple[object, ...], int]
) -> tuple[object, ...]:
    """By group and sequence; where the trace does not tell it, by order within the step."""
    collectives = trace.collectives
    group = trace.names[collectives.group[row]] if collectives.group[row] != NONE else ""
    peer = int(collectives.peer[row])
    ends: tuple[int, ...] = ()
    if peer != NONE:
        ends = (trace.rank, peer) if collectives.sends[row] else (peer, trace.rank)
    if collectives.sequence[row] != NONE:
        return group, ends, int(collectives.sequence[row])
    place = (group, ends, step, int(collectives.op[row]))
    seen[place] = seen.get(place, -1) + 1
    return (*place, seen[place])


def _steps(trace: Trace, event: Int64) -> Int64:
    """The number of the step in which each event began; NONE before the first."""
    row = np.searchsorted(trace.steps.start_ns, trace.events.start_ns[event], "right") - 1
    if not len(trace.steps):
        return np.full(len(row), NONE, np.int64)
    return np.where(row >= 0, trace.steps.number[np.maximum(row, 0)], NONE)


def _width(bounds: Bounds, slope: float) -> float:
    low, high = bounds.room(slope)
    return high - low


def _edge(bounds: Bounds, inside: float, outside: float) -> float:
    """The outermost drift that still leaves room, between one that does and one that may not."""
    if _width(bounds, outside) >= 0:
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if _width(bounds, middle) >= 0:
            inside = middle
        else:
            outside = middle
    return inside


def _highest(value: Curve, left: float, right: float) -> float:
    """Greatest value of a concave function between two drifts."""
    for _ in range(_HALVINGS):
        third = (right - left) / 3
        a, b = left + third, right - third
        if value(a) < value(b):
            left = a
        else:
            right = b
    return value((left + right) / 2)


def _least_broken(low: Float, high: Float) -> float:
    """The value that breaks the fewest bounds but leaves some on each side."""
    edges = np.sort(np.concatenate([low, high]))
    edges = edges[(edges >= low.min()) & (edges <= high.max())]
    between = (edges[1:] + edges[:-1]) / 2 if len(edges) > 1 else edges
    broken = len(low) - np.searchsorted(np.sort(low), between, "right")
    broken = broken + np.searchsorted(np.sort(high), between, "left")
    best = between[broken == broken.min()]
    return float(best[len(best) // 2])


def _robust_line(at: Float, gap: Float, steepest: float) -> OffsetLine:
    """Least absolute deviation, by reweighting; a drift beyond what clocks do counts as none."""
    weight = np.ones(len(at))
    slope = first = 0.0
    for _ in range(20):
        mean_at, mean_gap = np.average(at, weights=weight), np.average(gap, weights=weight)
        spread = float(np.average((at - mean_at) ** 2, weights=weight))
        cross = float(np.average((at - mean_at) * (gap - mean_gap), weights=weight))
        slope = cross / spread if spread > 0 else 0.0
        slope = slope if abs(slope) <= steepest else 0.0
        first = float(mean_gap - slope * mean_at)
        weight = 1 / np.maximum(np.abs(gap - first - slope * at), 1.0)
    return OffsetLine(first, slope)
