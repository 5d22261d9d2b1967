"""What the autotuner says: candidates, rows of its table, and the choice. Values only."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from paceline.weave.backend import Tunables


class CandidateOutcome(Enum):
    """What became of a candidate."""

    CHOSEN = "chosen"
    INCUMBENT = "incumbent"
    SLOWER = "slower"
    NOT_CERTAIN = "not certainly faster"
    PRUNED = "pruned"
    REFUSED = "refused"
    WRONG = "wrong result"


@dataclass(frozen=True)
class Candidate:
    """A schedule on a back end with its settings."""

    schedule: str
    backend: str
    tunables: Tunables = field(default_factory=dict)

    def __str__(self) -> str:
        settings = ", ".join(f"{k}={v}" for k, v in self.tunables.items())
        return f"{self.schedule} on {self.backend}" + (f" ({settings})" if settings else "")


@dataclass(frozen=True)
class Row:
    """One line of the table. Times in seconds; `p` is the chance that it is no faster than the
    incumbent it met."""

    candidate: Candidate
    outcome: CandidateOutcome
    predicted_s: float | None = None
    measured_s: float | None = None
    p: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Tuned:
    """The choice and how it came about. `cached` where it was made in an earlier run."""

    chosen: Candidate
    rows: tuple[Row, ...]
    cached: bool = False

    def document(self) -> dict[str, Any]:
        """As JSON."""
        rows = [{**asdict(row), "outcome": row.outcome.value} for row in self.rows]
        return {"chosen": asdict(self.chosen), "rows": rows}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> "Tuned":
        rows = tuple(
            Row(
                **{
                    **row,
                    "candidate": Candidate(**row["candidate"]),
                    "outcome": CandidateOutcome(row["outcome"]),
                }
            )
            for row in document["rows"]
        )
        return Tuned(Candidate(**document["chosen"]), rows, cached=True)

    def table(self) -> str:
        """Every candidate, fastest first, the refused ones last with their reasons; pruned
        settings of one schedule on one back end share a line."""
        rows = sorted(self.rows, key=lambda r: (_ORDER.index(r.outcome), r.measured_s or 0.0))
        pruned = Counter(_kind(r) for r in rows if r.outcome is CandidateOutcome.PRUNED)
        lines = [_line("schedule", "back end", "predicted", "measured", "p", "outcome")]
        for row in rows:
            if row.outcome is not CandidateOutcome.PRUNED:
                lines.append(_shown(row, _settings(row)))
            elif count := pruned.pop(_kind(row), 0):
                lines.append(_shown(row, f"({count} settings)" if count > 1 else _settings(row)))
        return "\n".join(lines)


def _kind(row: Row) -> tuple[str, str]:
    return row.candidate.schedule, row.candidate.backend


def _settings(row: Row) -> str:
    return " ".join(f"{k}={v}" for k, v in row.candidate.tunables.items())


def _shown(row: Row, settings: str) -> str:
    return _line(
        row.candidate.schedule,
        f"{row.candidate.backend} {settings}".strip(),
        _ms(row.predicted_s),
        _ms(row.measured_s),
        "" if row.p is None else f"{row.p:.3f}",
        row.outcome.value + (f": {row.reason}" if row.reason else ""),
    )


_ORDER = (
    CandidateOutcome.CHOSEN,
    CandidateOutcome.INCUMBENT,
    CandidateOutcome.NOT_CERTAIN,
    CandidateOutcome.SLOWER,
    CandidateOutcome.WRONG,
    CandidateOutcome.PRUNED,
    CandidateOutcome.REFUSED,
)


def _line(*cells: str) -> str:
    widths = (27, 46, 10, 10, 5, 0)
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3f} ms"
