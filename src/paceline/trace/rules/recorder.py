"""Time in which the recorder itself worked inside the job: no part of the step."""

from paceline.graph import NONE
from paceline.record.sidecar import Own
from paceline.trace.findings import Findings, Idles
from paceline.trace.trace import columns
from paceline.trace.view import RankView


def find(view: RankView) -> Findings:
    records = view.sidecar.of(Own) if view.sidecar else []
    rows = [(view.thread_lane(r.thread), r.begin_ns, r.end_ns, 0) for r in records]
    return Findings(idles=columns(Idles, [row for row in rows if row[0] != NONE]))
