"""`Tuned`: what the loop found, whether or not it was of use."""

from dataclasses import dataclass
from pathlib import Path

from paceline.predict import Prediction
from paceline.search import Candidate, Found
from paceline.trial import Decision, Outcome
from paceline.tune.recorded import Recorded
from paceline.tune.where import Where


@dataclass(frozen=True, eq=False)
class Expected:
    """What is predicted of a plan, beside the job as it is."""

    candidate: Candidate
    before: Prediction
    after: Prediction
    longer: float = 1.0  # samples until the goal's target, over those of the job as it is

    @property
    def worth(self) -> float:
        """Recorded batches that a step under the plan is worth, on the way to the goal."""
        return self.after.samples / self.longer

    @property
    def times(self) -> float:
        """Times as fast, for the same samples, or to the same accuracy."""
        return self.before.batch_ns / (self.after.step_ns / self.worth)

    @property
    def low(self) -> float:
        return self.before.step_ns / (self.after.high_ns / self.worth)

    @property
    def high(self) -> float:
        return self.before.step_ns / (self.after.low_ns / self.worth)


@dataclass(frozen=True, eq=False)
class Trial:
    """A plan that was tried live."""

    expected: Expected
    outcome: Outcome


@dataclass(frozen=True, eq=False)
class Tuned:
    """All of it. `kept` is the plan's file, where one is kept."""

    recorded: Recorded
    where: Where  # what predictions are for
    before: Prediction
    found: Found | None = None
    trials: tuple[Trial, ...] = ()
    kept: Path | None = None
    stopped: str = ""  # why the loop ended before its time

    @property
    def decision(self) -> Decision:
        """The last trial's; without one there is nothing better than what there is."""
        if self.kept is not None:
            return Decision.KEEP
        wavering = any(t.outcome.decision is Decision.INCONCLUSIVE for t in self.trials)
        return Decision.INCONCLUSIVE if wavering else Decision.STAY
