"""Is a plan stale? A job's own steps under it, beside the interval that was predicted for them."""

from collections import deque
from dataclasses import dataclass, field
from statistics import mean, median

from paceline.strategies.plan import Predicted

WINDOW = 40  # the latest steps, which count
STRETCH = 8  # steps whose mean counts as one: some plans exchange every few steps alone
SETTLED = 10  # the first ones, which still fill caches, do not
SLACK = 0.10
"""Beyond the interval's ends: steps of one job on a shared machine differ by as much from hour to
hour without any change of it."""


@dataclass
class Drift:
    """The latest steps of a job under a plan."""

    expected: Predicted
    _steps: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _seen: int = 0

    def step(self, wall_ns: int) -> None:
        self._seen += 1
        if self._seen > SETTLED:
            self._steps.append(wall_ns)

    @property
    def step_ns(self) -> float:
        """The median of the window's stretches; 0 before there is one."""
        steps = list(self._steps)
        whole = range(0, len(steps) - STRETCH + 1, STRETCH)
        means = [mean(steps[at : at + STRETCH]) for at in whole]
        return median(means) if means else 0.0

    @property
    def stale(self) -> str:
        """Why the plan is stale; empty where it is not, or where too few steps tell."""
        if len(self._steps) < WINDOW:
            return ""
        return stale(self.expected, self.step_ns)


def stale(expected: Predicted, step_ns: float) -> str:
    """Said where a step lies outside what was predicted."""
    low, high = expected.low_ns / (1 + SLACK), expected.high_ns * (1 + SLACK)
    if low <= step_ns <= high:
        return ""
    way = "longer" if step_ns > high else "shorter"
    return (
        f"the plan is stale: steps take {step_ns / 1e6:,.1f} ms, {way} than the "
        f"{expected.low_ns / 1e6:,.1f} to {expected.high_ns / 1e6:,.1f} ms that it was kept for. "
        "The job or the machine has changed; tune it again (`paceline tune`)"
    )
