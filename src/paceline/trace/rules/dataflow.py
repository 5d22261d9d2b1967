"""What later work reads of earlier work: batch -> forward, forward -> backward, step -> next step.

The order of the thread mostly says the same; a change that moves work to another thread or stream
has only these links to go by.
"""

from typing import Final

import numpy as np

from paceline.graph import NONE, DepKind
from paceline.record.sidecar import Data
from paceline.trace.findings import Findings, Links, link_rows, stacked
from paceline.trace.steps import steps_of
from paceline.trace.trace import Category, Int64
from paceline.trace.view import RankView

_LOADS: Final = "enumerate(DataLoader)"


def find(view: RankView) -> Findings:
    return Findings(stacked([_batches(view), _backwards(view), *_steps(view)]))


def _batches(view: RankView) -> Links:
    """From each batch to the first operator that the thread runs after it came."""
    events = view.trace.events
    lane, end = _loads(view)
    ops = np.flatnonzero((events.category == Category.CPU_OP) & view.is_host)
    at = np.searchsorted(view.key(events.lane[ops], events.start_ns[ops]), view.key(lane, end))
    first = ops[np.minimum(at, len(ops) - 1)] if len(ops) else np.zeros(len(at), np.int64)
    kept = (at < len(ops)) & (lane != NONE)
    kept[kept] = events.lane[first[kept]] == lane[kept]
    return link_rows(
        int(kept.sum()),
        DepKind.DATA,
        inferred=True,
        src_lane=lane[kept],
        src_ns=end[kept],
        dst_lane=lane[kept],
        dst_ns=events.start_ns[first[kept]],
    )


def _loads(view: RankView) -> tuple[Int64, Int64]:
    """Thread and end of each wait for a batch, from the trace or from the recorder."""
    events = view.trace.events
    rows = np.flatnonzero(view.names_with(_LOADS) & view.is_host)
    loads = view.sidecar.of(Data) if view.sidecar and not len(rows) else []
    lane = [view.thread_lane(load.thread) for load in loads]
    ends = [load.end_ns for load in loads]
    return (
        np.append(events.lane[rows].astype(np.int64), np.array(lane, np.int64)),
        np.append(events.end_ns[rows], np.array(ends, np.int64)),
    )


def _backwards(view: RankView) -> Links:
    """From the end of each forward operator to its backward one, as the profiler's arrows tell."""
    events, flows = view.trace.events, view.trace.flows
    ops = np.flatnonzero((events.category == Category.CPU_OP) & view.is_host)
    starts = view.key(events.lane[ops], events.start_ns[ops])
    key = view.key(flows.src_lane, flows.src_ns)
    at = np.searchsorted(starts, key, "left")  # the outermost that starts there
    forward = ops[np.minimum(at, len(ops) - 1)] if len(ops) else np.zeros(len(at), np.int64)
    kept = at < len(ops)
    kept[kept] = (starts[at[kept]] == key[kept]) & (
        events.end_ns[forward[kept]] <= flows.dst_ns[kept]
    )
    kept &= np.isin(flows.dst_lane, view.host_lanes)
    return link_rows(
        int(kept.sum()),
        DepKind.AUTOGRAD,
        src_lane=flows.src_lane[kept],
        src_ns=events.end_ns[forward[kept]],
        dst_lane=flows.dst_lane[kept],
        dst_ns=flows.dst_ns[kept],
    )


def _steps(view: RankView) -> list[Links]:
    """Across each border between two steps: on the thread, and from the last device work launched
    before it to the first after it."""
    steps, main = steps_of(view)[0], view.main_lane
    at = steps.start_ns[1:] if main != NONE else steps.start_ns[:0]
    lane = np.full(len(at), main, np.int64)
    return [
        link_rows(len(at), DepKind.STEP, src_lane=lane, src_ns=at, dst_lane=lane, dst_ns=at),
        _device_steps(view, lane, at),
    ]


def _device_steps(view: RankView, lane: Int64, at_ns: Int64) -> Links:
    events, calls = view.trace.events, view.calls
    after = np.searchsorted(calls.key, view.key(lane, at_ns), "left")
    kept = (after > 0) & (after < len(calls.work))
    before, after, lane = after[kept] - 1, after[kept], lane[kept]
    src, dst = calls.work[before], calls.work[after]
    fits = (events.lane[calls.call[before]] == lane) & (events.lane[calls.call[after]] == lane)
    fits &= events.end_ns[src] <= events.start_ns[dst]
    return link_rows(
        int(fits.sum()),
        DepKind.STEP,
        inferred=True,
        src_event=src[fits],
        dst_event=dst[fits],
    )
