"""Host threads that hand work to each other: the autograd engine's, mostly.

The trace has no record of the hand-over. A thread that begins after the training loop's thread did
something was woken by it; the loop's thread, if it does nothing at all while another thread runs
backward ops, waits for them. All of this is inferred.
"""

from typing import Final

import numpy as np

from paceline.graph import NONE, DepKind
from paceline.trace.findings import Findings, Idles, link_rows, stacked
from paceline.trace.trace import Bool, Int64
from paceline.trace.view import RankView

_SHORTEST_WAIT_NS: Final = 1_000
"""A thread that is quiet for less than this did not wait for another."""


def find(view: RankView) -> Findings:
    main = view.main_lane
    others = [lane for lane in view.host_lanes if lane != main]
    if main == NONE or not others:
        return Findings()
    beats = _beats(view, main)
    links, idles = [], []
    for lane in others:
        starts, ends = _bursts(view, lane, beats)
        lanes = np.full(len(starts), lane, np.int32)
        mains = np.full(len(starts), main, np.int32)
        links.append(
            link_rows(
                len(starts),
                DepKind.AUTOGRAD,
                inferred=True,
                src_lane=mains,
                src_ns=starts,
                dst_lane=lanes,
                dst_ns=starts,
            )
        )
        idles.append(Idles(lanes[1:], ends[:-1], starts[1:], np.ones(len(starts) - 1, np.bool_)))
        waited = _waited_for(view, lane, starts, ends, beats)
        links.append(
            link_rows(
                int(waited.sum()),
                DepKind.AUTOGRAD,
                inferred=True,
                src_lane=lanes[waited],
                src_ns=ends[waited],
                dst_lane=mains[waited],
                dst_ns=ends[waited],
            )
        )
        yes = np.ones(int(waited.sum()), np.bool_)
        idles.append(Idles(mains[waited], starts[waited], ends[waited], yes))
    return Findings(stacked(links), stacked(idles))


def _beats(view: RankView, lane: int) -> Int64:
    """Every moment at which a range starts or ends on a lane."""
    events = view.trace.events
    rows = view.is_host & (events.lane == lane)
    return np.unique(np.concatenate([events.start_ns[rows], events.end_ns[rows]]))


def _bursts(view: RankView, lane: int, beats: Int64) -> tuple[Int64, Int64]:
    """Stretches of work on a lane, parted where the main thread did something in between."""
    events = view.trace.events
    rows = np.flatnonzero(view.is_host & (events.lane == lane))
    start, reached = events.start_ns[rows], np.maximum.accumulate(events.end_ns[rows])
    quiet = start[1:] > reached[:-1]
    woken = np.searchsorted(beats, start[1:], "left") > np.searchsorted(
        beats, reached[:-1], "right"
    )
    parted = np.flatnonzero(quiet & woken) + 1
    firsts = np.concatenate([[0], parted])
    lasts = np.append(parted, len(rows)) - 1
    return start[firsts], reached[lasts]


def _waited_for(view: RankView, lane: int, starts: Int64, ends: Int64, beats: Int64) -> Bool:
    """Bursts of backward ops during which the main thread did nothing."""
    events = view.trace.events
    backward = np.sort(events.start_ns[(events.lane == lane) & events.backward])
    has = np.searchsorted(backward, ends, "left") > np.searchsorted(backward, starts, "left")
    silent = np.searchsorted(beats, starts, "right") == np.searchsorted(beats, ends, "left")
    inside = (starts > beats[0]) & (ends < beats[-1]) if len(beats) else np.zeros(len(starts), bool)
    waited: Bool = has & silent & inside & (ends - starts >= _SHORTEST_WAIT_NS)
    return waited
