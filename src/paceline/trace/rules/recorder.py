"""Time that is no part of any recorded step: in which the recorder itself worked inside the job,
and plain steps between two stretches of recorded ones."""

from collections.abc import Iterator
from itertools import pairwise

from paceline.graph import NONE
from paceline.record.sidecar import Own
from paceline.trace.findings import Findings, Idles
from paceline.trace.trace import columns
from paceline.trace.view import RankView


def find(view: RankView) -> Findings:
    records = view.sidecar.of(Own) if view.sidecar else []
    rows = [(view.thread_lane(r.thread), r.begin_ns, r.end_ns, 0) for r in records]
    return Findings(
        idles=columns(Idles, [row for row in (*rows, *_between(view)) if row[0] != NONE])
    )


def _between(view: RankView) -> Iterator[tuple[int, int, int, int]]:
    """On every thread, from each recorded step to the next one that is not its neighbour."""
    for before, after in pairwise(view.recorded_steps):
        if after.index > before.index + 1:
            yield from ((lane, before.end_ns, after.begin_ns, 0) for lane in view.host_lanes)
