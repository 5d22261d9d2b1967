"""A device's queue of launches is full: the host's next call waits until the oldest work is done.

A driver takes about a thousand launches ahead (1,022 on an H100 and an H200). A host that runs
ahead of its device spends most of its time in such calls, and none of it is work: on a faster
device it would not wait. How many the queue holds is seen in the recording; where none of its
queues was that full, nothing is concluded.
"""

from typing import Final

import numpy as np

from paceline.graph import DepKind
from paceline.trace.findings import Findings, Idles, joined, link_rows
from paceline.trace.trace import Int64
from paceline.trace.view import RankView

LEAST: Final = 1_000
"""Launches under way at which a queue may be full."""
_SLACK: Final = 3
"""Places that were free by the time stamps of a queue that was full."""


def find(view: RankView) -> Findings:
    """One queue for each device."""
    device = np.array([lane.device for lane in view.trace.lanes], np.int64)
    of_work = device[view.trace.events.lane[view.calls.work]]
    return joined(
        [Findings(), *(_of_device(view, np.flatnonzero(of_work == d)) for d in np.unique(of_work))]
    )


def _of_device(view: RankView, which: Int64) -> Findings:
    events = view.trace.events
    work, call = view.calls.work[which], view.calls.call[which]
    order = np.argsort(events.start_ns[call], kind="stable")
    work, call = work[order], call[order]
    start, end = events.start_ns[call], events.end_ns[call]
    by_end = work[np.argsort(events.end_ns[work], kind="stable")]
    done_ns = events.end_ns[by_end]
    under_way = np.arange(len(work)) - np.searchsorted(done_ns, start, "right")
    holds = int(under_way.max(initial=0))
    if holds < LEAST:
        return Findings()
    full = np.flatnonzero(under_way >= holds - _SLACK)
    frees = np.maximum(full - holds, 0)  # the place of the work that has to be done by then
    until = np.minimum(np.maximum(start[full], done_ns[frees]), end[full])
    waits = until > start[full]
    lane, begin, until = events.lane[call[full]][waits], start[full][waits], until[waits]
    links = link_rows(
        len(lane), DepKind.WAIT, src_event=by_end[frees][waits], dst_lane=lane, dst_ns=until
    )
    return Findings(links, Idles(lane, begin, until, np.ones(len(lane), np.bool_)))
