"""Schedules of a program with their predicted times on a cluster: nothing runs, torch is not
needed."""

from paceline.cluster import Cluster
from paceline.weave.program import Program
from paceline.weave.replayed import replayed_s
from paceline.weave.schedules import schedules
from paceline.weave.transforms import Refusal
from paceline.weave.tuning import Candidate, CandidateOutcome, Row

CLUSTER = "cluster"
"""Stands where a back end is named."""


def predicted_on_cluster(written: Program, cluster: Cluster) -> tuple[Row, ...]:
    """A row for each schedule, fastest first, the refused ones last."""
    rows = []
    for schedule in schedules(written):
        candidate = Candidate(schedule.name, CLUSTER)
        if isinstance(schedule.made, Refusal):
            reason = schedule.made.reason
            rows.append(Row(candidate, CandidateOutcome.REFUSED, reason=reason))
        else:
            seconds = replayed_s(schedule.made, cluster)
            rows.append(Row(candidate, CandidateOutcome.PREDICTED, predicted_s=seconds))
    return tuple(sorted(rows, key=lambda row: row.predicted_s or float("inf")))
