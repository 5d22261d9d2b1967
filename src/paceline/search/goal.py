"""`Goal`: what a search is to find, and what it may do for that."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from paceline.search.errors import SearchError
from paceline.search.learning import Learning, to_target_ns
from paceline.search.score import Score
from paceline.strategies import Effect, Strategy, kind_of

ORDER = (Effect.EXACT, Effect.LOSSY, Effect.RELAXED)
"""From what leaves the numbers that are learnt alone to what changes them most."""


class Aim(Enum):
    """What is to be least."""

    TIME = "time"  # for a recorded batch
    MEMORY = "memory"  # of the fullest rank
    BYTES = "bytes"  # that a mean rank sends for a recorded batch
    ACCURACY = "time-to-accuracy"  # time until a target accuracy


@dataclass(frozen=True)
class Goal:
    """`allow` is the least exact effect that a plan may have; `strategies` are names to choose
    from, or None for all that keep the model; `without` are names to leave out. `learning` is what
    time to an accuracy rests on."""

    allow: Effect = Effect.EXACT
    memory_limit_bytes: int | None = None
    budget_s: float = 30.0
    seed: int = 0
    strategies: Sequence[str] | None = None
    aim: Aim = Aim.TIME
    without: Sequence[str] = ()
    learning: Learning | None = None

    def __post_init__(self) -> None:
        if not self.budget_s > 0:
            raise SearchError(f"a budget of {self.budget_s:g} s was asked for; give more than 0")
        if self.memory_limit_bytes is not None and self.memory_limit_bytes <= 0:
            raise SearchError(
                f"a memory limit of {self.memory_limit_bytes} bytes was asked for; give more than 0"
            )
        if self.aim is Aim.ACCURACY and self.learning is None:
            raise SearchError(
                "time to an accuracy needs a target and a learning curve of the job as it is"
            )
        for name in (*(self.strategies or ()), *self.without):
            kind_of(name)  # refuses a name that is not known

    @property
    def needs_memory(self) -> bool:
        return self.memory_limit_bytes is not None or self.aim is Aim.MEMORY

    def allows(self, effect: Effect) -> bool:
        return ORDER.index(effect) <= ORDER.index(self.allow)

    def holds(self, score: Score) -> bool:
        """Whether it stays within the memory limit."""
        limit = self.memory_limit_bytes
        return limit is None or (score.memory_bytes is not None and score.memory_bytes <= limit)

    def cost(self, plan: Sequence[Strategy], score: Score) -> tuple[float, ...]:
        """The lower the better; what breaks the memory limit comes last, the least first."""
        if not self.holds(score):
            return (1.0, float(score.memory_bytes or 0), score.batch_ns)
        if self.aim is Aim.ACCURACY:
            return (0.0, self._to_target_ns(plan, score), score.batch_ns)
        return (0.0, *_AIMS[self.aim](score))

    def refusal(self, change: Strategy) -> str | None:
        """Why the goal has no use for a change; None where it has."""
        if change.frees_memory and not self.needs_memory:
            return _MEMORY
        if self.aim is not Aim.ACCURACY or self.learning is None:
            return None
        return self.learning.refusal(change)

    def _to_target_ns(self, plan: Sequence[Strategy], score: Score) -> float:
        assert self.learning is not None, "required above"
        return to_target_ns(self.learning.expected(plan, score.samples), score.batch_ns)


def least_exact(effects: Sequence[Effect]) -> Effect:
    """The effect of a plan with these."""
    return max(effects, key=ORDER.index, default=Effect.EXACT)


_MEMORY = (
    "it frees memory and takes time for that, and memory is not asked for; give a memory limit "
    "(--memory-limit), or let memory be least (--goal memory)"
)
_AIMS: Mapping[Aim, Callable[[Score], tuple[float, float]]] = {
    Aim.TIME: lambda score: (score.batch_ns, score.batch_sends),
    Aim.MEMORY: lambda score: (float(score.memory_bytes or 0), score.batch_ns),
    Aim.BYTES: lambda score: (score.batch_sends, score.batch_ns),
}
