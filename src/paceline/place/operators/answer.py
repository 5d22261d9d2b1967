"""`Answer`: a split with its value, what is proven about it, and how it was found."""

from dataclasses import dataclass
from enum import Enum

from paceline.place.operators.schedule import PieceSchedule
from paceline.place.operators.split import Split


class Goal(Enum):
    """What is minimised."""

    MAX_LOAD = "max load"  # time a sample in a full pipeline
    LATENCY = "latency"  # time of one sample alone


class Outcome(Enum):
    """What is known about an answer."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"  # valid; the gap says how far from the best it may be
    INFEASIBLE = "infeasible"  # no split keeps the limits; `notes` says why
    NOTHING = "nothing found"  # limits were reached before any valid split was found


@dataclass(frozen=True)
class Answer:
    """`split` is None where there is none; `notes` tell of fall-backs and limits reached."""

    goal: Goal
    outcome: Outcome
    method: str
    value: float
    lower_bound: float
    seconds: float
    split: Split | None
    notes: tuple[str, ...] = ()
    ideals: int = 0
    pairs: int = 0
    schedule: PieceSchedule | None = None  # the pieces behind a latency

    @property
    def gap(self) -> float:
        """How far the value may be from the best, as a share of the value."""
        if self.split is None:
            return float("inf")
        return max(0.0, 1 - self.lower_bound / self.value) if self.value > 0 else 0.0


def infeasible(goal: Goal, method: str, reasons: tuple[str, ...]) -> Answer:
    """No split exists, and why."""
    never = float("inf")
    return Answer(goal, Outcome.INFEASIBLE, method, never, never, 0.0, None, reasons)
