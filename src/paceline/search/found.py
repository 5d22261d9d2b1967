"""`Found` and `Candidate`: what a search gives back."""

from dataclasses import dataclass
from enum import Enum

from paceline.search.learning import Reached
from paceline.strategies import Effect, Strategy


@dataclass(frozen=True)
class Candidate:
    """A plan and what it costs a mean worker."""

    plan: tuple[Strategy, ...]
    step_ns: int
    batch_ns: float  # for a recorded batch: by this, plans with other batches compare
    memory_bytes: int | None  # of the fullest rank; None where the recording does not tell
    sends: int  # bytes of a rank in a mean step
    effect: Effect
    reasons: tuple[str, ...] = ()  # why each part is in the plan, one line each
    low_ns: int | None = None  # of the step, as `Prediction` has it; told of the best plan
    high_ns: int | None = None
    reached: Reached | None = None  # where the goal is a target accuracy


class Ended(Enum):
    """Why a search went no further."""

    DONE = "done"  # the searcher had no more to try
    BUDGET = "budget"  # the time was spent
    INTERRUPTED = "interrupted"  # by Ctrl-C, or by who watched


@dataclass(frozen=True)
class Found:
    """The best plan, the job as it is, and all that nothing tried beats in every respect."""

    best: Candidate
    unchanged: Candidate
    pareto: tuple[Candidate, ...]
    tried: int
    seconds: float
    refused: tuple[tuple[Strategy, str], ...]  # strategies that this job does not take, and why
    ended: Ended = Ended.DONE
    sharded: Candidate | None = None  # under FSDP2 in place of DDP, where the job is under that
