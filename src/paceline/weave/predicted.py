"""Schedules of a program with their predicted times: nothing runs, torch is not needed.

Who predicts is given, for programs know nothing of clusters: `paceline weave` asks
`predict(as_graph(program), (), cluster)`.
"""

from collections.abc import Callable

from paceline.weave.program import Program
from paceline.weave.schedules import schedules
from paceline.weave.transforms import Refusal
from paceline.weave.tuning import Candidate, CandidateOutcome, TuningRow

CLUSTER = "cluster"
"""Stands where a back end is named."""


def predicted(written: Program, seconds: Callable[[Program], float]) -> tuple[TuningRow, ...]:
    """A row for each schedule, fastest first, the refused ones last."""
    rows = []
    for schedule in schedules(written):
        candidate = Candidate(schedule.name, CLUSTER)
        if isinstance(schedule.made, Refusal):
            reason = schedule.made.reason
            rows.append(TuningRow(candidate, CandidateOutcome.REFUSED, reason=reason))
        else:
            took_s = seconds(schedule.made)
            rows.append(TuningRow(candidate, CandidateOutcome.PREDICTED, predicted_s=took_s))
    return tuple(sorted(rows, key=lambda row: row.predicted_s or float("inf")))
