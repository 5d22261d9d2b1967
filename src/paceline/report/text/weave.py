"""Schedules of a program: fastest first, the refused ones last with their reasons.

Settings are shown where they differ from the back end's usual ones; rows that differ in nothing
that is shown share a line.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paceline.report.text.quantities import duration
from paceline.weave.tuning import CandidateOutcome, TuningRow

if TYPE_CHECKING:
    from rich.table import Table

ORDER = (
    CandidateOutcome.CHOSEN,
    CandidateOutcome.INCUMBENT,
    CandidateOutcome.NOT_CERTAIN,
    CandidateOutcome.SLOWER,
    CandidateOutcome.WRONG,
    CandidateOutcome.PREDICTED,
    CandidateOutcome.PRUNED,
    CandidateOutcome.REFUSED,
)
SETTINGS_SHARE_A_LINE = (CandidateOutcome.PREDICTED, CandidateOutcome.PRUNED)

COLUMNS = (
    ("schedule", False),
    ("back end", False),
    ("settings", False),
    ("predicted", True),
    ("measured", True),
    ("p", True),
    ("outcome", False),
)
"""Name, and whether it holds numbers; one that no row fills is left out."""

Cells = tuple[str, ...]


def schedules_table(rows: Sequence[TuningRow]) -> "Table":
    from rich.table import Table

    lines = _lines(sorted(rows, key=_order))
    used = [at for at in range(len(COLUMNS)) if any(line[at] for line in lines)]
    table = Table(box=None, pad_edge=False)
    for at in used:
        name, is_number = COLUMNS[at]
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for line in lines:
        table.add_row(*(line[at] for at in used))
    return table


def _lines(rows: Sequence[TuningRow]) -> list[Cells]:
    usual = _usual(rows)
    shown = Counter(_cells(r, usual) for r in rows if r.outcome is not CandidateOutcome.REFUSED)
    refused = [row for row in rows if row.outcome is CandidateOutcome.REFUSED]
    counted = [
        (*line[:2], f"{count} settings" if count > 1 else line[2], *line[3:])
        for line, count in shown.items()
    ]
    return counted + _refused(refused)


def _order(row: TuningRow) -> tuple[int, float]:
    return ORDER.index(row.outcome), row.measured_s or row.predicted_s or 0.0


def _usual(rows: Sequence[TuningRow]) -> Mapping[tuple[str, str], Any]:
    """The most frequent value of each setting of each back end."""
    values: dict[tuple[str, str], Counter[Any]] = {}
    for row in rows:
        for name, value in row.candidate.tunables.items():
            values.setdefault((row.candidate.backend, name), Counter())[value] += 1
    return {key: counts.most_common(1)[0][0] for key, counts in values.items()}


def _cells(row: TuningRow, usual: Mapping[tuple[str, str], Any]) -> Cells:
    runner, settings = row.candidate.backend, row.candidate.tunables
    unusual = [f"{k}={v}" for k, v in settings.items() if usual[runner, k] != v]
    return (
        row.candidate.schedule,
        runner,
        "" if row.outcome in SETTINGS_SHARE_A_LINE else " ".join(unusual),
        "" if row.predicted_s is None else duration(1e9 * row.predicted_s),
        "" if row.measured_s is None else duration(1e9 * row.measured_s),
        "" if row.p is None else f"{row.p:.3f}",
        row.outcome.value + (f": {row.reason}" if row.reason else ""),
    )


def _refused(rows: Sequence[TuningRow]) -> list[Cells]:
    """One line for all schedules that one back end refuses for one reason."""
    schedules: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        schedules.setdefault((row.candidate.backend, row.reason), []).append(row.candidate.schedule)
    empty = ("",) * 4
    return [
        (_together(names), runner, *empty, f"refused: {reason}")
        for (runner, reason), names in schedules.items()
    ]


def _together(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} schedules"
