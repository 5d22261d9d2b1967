"""Host threads as pieces: self time, cut where other lanes hang on it, less what it only waited."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from paceline.graph import NONE
from paceline.record.sidecar import Cost
from paceline.trace.findings import Findings, Idles
from paceline.trace.flatten import GAP, Segments, flatten
from paceline.trace.phases import recorded_moments
from paceline.trace.refaults import refaults_ns
from paceline.trace.trace import Bool, Category, Int32, Int64, Steps
from paceline.trace.view import RankView

GRAIN_NS: Final = 1_000
"""Shorter self time joins the piece before it: the resolution of most traces is 1 us."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Consecutive pieces of the host lanes, in order of (lane, time)."""

    owner: Int32  # row of `Events`; GAP between recorded ranges
    lane: Int32
    start_ns: Int64
    end_ns: Int64
    dur_ns: Int64  # 0 where the lane only waited
    wait: Bool

    def __len__(self) -> int:
        return len(self.owner)


def pieces_of(view: RankView, found: Findings, steps: Steps, cost: Cost) -> Pieces:
    """All host lanes' pieces, less what recording cost their threads."""
    borders_ns = np.append(steps.start_ns, steps.end_ns[-1:])
    rows, lane, start, end = _ranges(view, borders_ns)
    parts = flatten(lane, start, end, *_cuts(view, found, borders_ns))
    own = parts.end_ns - parts.start_ns
    price = np.rint(parts.borders * (cost.op_ns / 2)).astype(np.int64)
    price += _of_calls(view, rows, parts, cost.call_ns)
    waited = _inside(view, parts, found.idles, found.idles.wait)
    idle = waited | _inside(view, parts, found.idles, ~found.idles.wait)
    own[idle] = price[idle] = 0
    own = without_price(parts.lane, own, price)
    if view.sidecar is not None:
        missing = refaults_ns(view.sidecar, steps.number.tolist())
        own = _with_refaults(view, rows, parts, own, borders_ns, missing)
    first = _absorb(parts)
    owner = parts.owner[first]
    owner[owner >= 0] = rows[owner[owner >= 0]]
    return Pieces(
        owner,
        parts.lane[first],
        parts.start_ns[first],
        parts.end_ns[np.append(first[1:], len(parts)) - 1] if len(first) else parts.end_ns,
        np.add.reduceat(own, first) if len(first) else own,
        waited[first],
    )


def _of_calls(view: RankView, rows: Int64, parts: Segments, call_ns: float) -> Int64:
    """What recording cost calls of the driver while they ran, shared among the pieces of each."""
    owner = np.where(parts.owner == GAP, GAP, rows[parts.owner])
    calls = (owner != GAP) & (view.trace.events.category[owner] == Category.RUNTIME)
    mine, owner = np.flatnonzero(calls), owner[calls]
    price = np.zeros(len(parts), np.int64)
    price[mine] = np.rint(call_ns / np.bincount(owner)[owner])
    return price


def without_price(lane: Int32, own_ns: Int64, price_ns: Int64) -> Int64:
    """Self times, in order of (lane, time), less what recording cost each. Where that is more than
    a piece lasted, the rest comes off those behind it on its lane: an event's price is a mean, and
    small operators nest several events that each cost less."""
    found = own_ns.copy()
    for each in np.unique(lane):
        mine = lane == each
        left = np.cumsum(price_ns[mine] - own_ns[mine])
        owed = left - np.minimum(np.minimum.accumulate(left), 0)
        before = np.concatenate([owed[:1] * 0, owed[:-1]])
        found[mine] += owed - before - price_ns[mine]
    return found


def _with_refaults(
    view: RankView, rows: Int64, parts: Segments, own: Int64, borders_ns: Int64, missing_ns: Int64
) -> Int64:
    """Page faults that recording spared each step, back on its operators, or those that it added
    taken off: operators write the fresh pages. Which of them did is not known, so each takes a
    share by its time."""
    operator = view.trace.events.category[rows[parts.owner]] == Category.CPU_OP
    step = np.searchsorted(borders_ns, parts.start_ns, "right") - 1
    mine = operator & (parts.owner != GAP) & (parts.lane == view.main_lane)
    mine &= (step >= 0) & (step < len(missing_ns))
    step[~mine] = 0
    whole = np.bincount(step[mine], own[mine], len(missing_ns))
    share = np.maximum(-1.0, missing_ns / np.maximum(whole, 1))
    return own + np.where(mine, np.rint(own * share[step]), 0).astype(np.int64)


def _ranges(view: RankView, borders_ns: Int64) -> tuple[Int64, Int32, Int64, Int64]:
    """Host ranges, and an empty one at the first and the last step's border: the main thread's
    time reaches from one to the other, whatever it recorded."""
    events, rows = view.trace.events, np.flatnonzero(view.is_host)
    edges = borders_ns[[0, -1]] if view.main_lane != NONE else borders_ns[:0]
    lane = np.append(events.lane[rows], np.full(len(edges), view.main_lane, np.int32))
    start = np.append(events.start_ns[rows], edges)
    end = np.append(events.end_ns[rows], edges)
    order = np.lexsort((-end, start, lane))
    owner = np.append(rows, np.full(len(edges), GAP))
    return owner[order], lane[order], start[order], end[order]


def _cuts(view: RankView, found: Findings, borders_ns: Int64) -> tuple[Int32, Int64]:
    """Every moment that a rule speaks of, each once, by (lane, time)."""
    links, idles, drains = found.links, found.idles, found.drains
    src, dst = links.src_event == NONE, links.dst_event == NONE
    lane = [links.src_lane[src], links.dst_lane[dst], idles.lane, idles.lane, drains.lane]
    at = [links.src_ns[src], links.dst_ns[dst], idles.start_ns, idles.end_ns, drains.at_ns]
    moment_lane, moment_ns = recorded_moments(view)
    lane += [np.full(len(borders_ns), max(view.main_lane, 0), np.int32), moment_lane]
    lanes, times = np.concatenate(lane), np.concatenate([*at, borders_ns, moment_ns])
    _, first = np.unique(view.key(lanes, times), return_index=True)
    return lanes[first].astype(np.int32), times[first]


def _inside(view: RankView, parts: Segments, idles: Idles, chosen: Bool) -> Bool:
    """Which parts lie in one of the chosen stretches; parts are cut at their borders."""
    lane = idles.lane[chosen]
    starts = np.sort(view.key(lane, idles.start_ns[chosen]))
    ends = np.sort(view.key(lane, idles.end_ns[chosen]))
    key = view.key(parts.lane, parts.start_ns)
    open_now = np.searchsorted(starts, key, "right") - np.searchsorted(ends, key, "right")
    return (open_now > 0) & (parts.end_ns > parts.start_ns)


def _absorb(parts: Segments) -> Int64:
    """First part of each piece: short self time joins what comes before, unless a cut divides."""
    if not len(parts):
        return np.zeros(0, np.int64)
    short = (parts.end_ns - parts.start_ns) < GRAIN_NS
    joins = short & ~parts.after_cut
    joins[0] = False
    joins[1:] &= (parts.lane[1:] == parts.lane[:-1]) & (
        (parts.owner[1:] < 0) == (parts.owner[:-1] < 0)
    )
    return np.flatnonzero(~joins)
