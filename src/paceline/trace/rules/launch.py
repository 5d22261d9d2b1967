"""Launch -> device work, by correlation id; and blocking copies, whose call outlasts the copy.

A kernel may begin before its launch call returns: the call is cut there, and the rest of it is the
host's alone.
"""

import numpy as np

from paceline.graph import DepKind
from paceline.trace.findings import Findings, Idles, Links, link_rows, stacked
from paceline.trace.trace import Category
from paceline.trace.view import RankView


def find(view: RankView) -> Findings:
    events, calls = view.trace.events, view.calls
    at = np.clip(
        events.start_ns[calls.work], events.start_ns[calls.call], events.end_ns[calls.call]
    )
    launched = link_rows(
        len(at),
        DepKind.LAUNCH,
        src_lane=events.lane[calls.call],
        src_ns=at,
        dst_event=calls.work,
    )
    waits, idles = _blocking_copies(view)
    notes = []
    if calls.orphans:
        notes.append(f"{calls.orphans} pieces of device work have no launch in the trace")
    return Findings(stacked([launched, waits]), idles, notes=tuple(notes))


def _blocking_copies(view: RankView) -> tuple[Links, Idles]:
    """A copy that has ended when its call returns was waited for (pageable memory)."""
    events, calls = view.trace.events, view.calls
    start, end = events.start_ns[calls.work], events.end_ns[calls.work]
    blocking = (
        (events.category[calls.work] == Category.MEMCPY)
        & (end <= events.end_ns[calls.call])
        & (start >= events.start_ns[calls.call])
    )
    work, call = calls.work[blocking], calls.call[blocking]
    lane = events.lane[call]
    links = link_rows(
        len(work),
        DepKind.WAIT,
        inferred=True,
        src_event=work,
        dst_lane=lane,
        dst_ns=events.end_ns[work],
    )
    idles = Idles(lane, events.start_ns[work], events.end_ns[work], np.ones(len(work), np.bool_))
    return links, idles
