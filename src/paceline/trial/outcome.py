"""`Outcome`: what a trial showed, and what follows from it."""

from dataclasses import dataclass
from enum import Enum

from paceline.strategies import Strategy
from paceline.trial.losses import LossCheck
from paceline.trial.significance import CERTAIN, Gain


class Finding(Enum):
    """The verdict on a plan that was tried."""

    FASTER = "faster"
    NO_GAIN = "no gain"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"
    LOSS_OFF = "loss off"
    REFUSED = "refused"
    CRASHED = "crashed"
    HUNG = "hung"
    OUT_OF_MEMORY = "out of memory"
    NO_STEPS = "no steps"

    @property
    def failed(self) -> bool:
        """The job did not go on under the plan as it should."""
        return self in _FAILED


_FAILED = {
    Finding.LOSS_OFF,
    Finding.REFUSED,
    Finding.CRASHED,
    Finding.HUNG,
    Finding.OUT_OF_MEMORY,
    Finding.NO_STEPS,
}

WORTHLESS = 0.01
"""Where no gain larger than this is likely any more, there is none to be had."""


class Decision(Enum):
    """What to do."""

    KEEP = "keep the plan"
    STAY = "keep what you have"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Outcome:
    """One plan's trial."""

    plan: tuple[Strategy, ...]
    finding: Finding
    cause: str
    gain: Gain | None = None
    baseline_ns: float = 0.0  # the median step, and below that under the plan
    plan_ns: float = 0.0
    steps: int = 0  # that count, under the plan
    loss: LossCheck | None = None
    plan_steps_ns: tuple[int, ...] = ()  # each of these
    plain_steps_ns: tuple[int, ...] = ()

    @property
    def decision(self) -> Decision:
        if self.finding is Finding.FASTER:
            return Decision.KEEP
        if self.finding is Finding.INCONCLUSIVE:
            return Decision.INCONCLUSIVE
        return Decision.STAY


def finding_of(gain: Gain, loss: LossCheck) -> tuple[Finding, str]:
    """A plan is kept where it helps beyond chance and beyond what the job differs from itself."""
    if loss.held is False:
        return Finding.LOSS_OFF, loss.said
    told = f"{gain.gain:+.1%} ({gain.low:+.1%} to {gain.high:+.1%})"
    if gain.chance <= CERTAIN and gain.gain > abs(gain.itself):
        if loss.held is None and loss.seen:
            return Finding.INCONCLUSIVE, f"{told}, but the loss may be off: {loss.said}"
        return Finding.FASTER, f"{told}, and chance makes that in {gain.chance:.1%} of cases"
    if gain.high < 0:
        return Finding.SLOWER, f"{told}: the job is slower under it"
    if gain.high < WORTHLESS:
        return Finding.NO_GAIN, f"{told}: more than {WORTHLESS:.0%} is not likely"
    return (
        Finding.INCONCLUSIVE,
        f"{told} is within what chance makes; a gain of 3 % shows with about {gain.needed} steps "
        "of each side (--steps)",
    )
