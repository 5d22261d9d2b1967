"""What the autotuner says: candidates, rows of its table, and the choice. Values only."""

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
    PREDICTED = "predicted"
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
class TuningRow:
    """One line of the table. Times in seconds; `p` is the chance that it is no faster than the
    incumbent it met."""

    candidate: Candidate
    outcome: CandidateOutcome
    predicted_s: float | None = None
    measured_s: float | None = None
    p: float | None = None
    reason: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "outcome": self.outcome.value}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> "TuningRow":
        candidate = Candidate(**document["candidate"])
        outcome = CandidateOutcome(document["outcome"])
        return TuningRow(**{**document, "candidate": candidate, "outcome": outcome})


@dataclass(frozen=True)
class Tuned:
    """The choice and how it came about. `cached` where it was made in an earlier run."""

    chosen: Candidate
    rows: tuple[TuningRow, ...]
    cached: bool = False

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"chosen": asdict(self.chosen), "rows": [row.document() for row in self.rows]}

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> "Tuned":
        rows = tuple(TuningRow.from_document(row) for row in document["rows"])
        return Tuned(Candidate(**document["chosen"]), rows, cached=True)
