"""Steps, predictions and verdicts as named numbers. Times are in ms, errors are shares."""

from typing import Protocol

from paceline.verify import Measured, Verdict

NS_PER_MS = 1e6
Figures = dict[str, float]


class Expected(Protocol):
    """A predicted step: a `Prediction`, or what the history keeps of one."""

    @property
    def step_ns(self) -> int: ...
    @property
    def low_ns(self) -> int: ...
    @property
    def high_ns(self) -> int: ...


def step_figures(step_ns: int) -> Figures:
    """One step of a running job."""
    return {"paceline/step_ms": step_ns / NS_PER_MS}


def prediction_figures(found: Expected) -> Figures:
    """A predicted step with its interval."""
    return {
        "paceline/predicted_ms": found.step_ns / NS_PER_MS,
        "paceline/predicted_low_ms": found.low_ns / NS_PER_MS,
        "paceline/predicted_high_ms": found.high_ns / NS_PER_MS,
    }


def measured_figures(seen: Measured) -> Figures:
    """Measured steps: their median, p10 and p90."""
    return {
        "paceline/measured_ms": seen.step_ns / NS_PER_MS,
        "paceline/measured_p10_ms": seen.low_ns / NS_PER_MS,
        "paceline/measured_p90_ms": seen.high_ns / NS_PER_MS,
    }


def verdict_figures(verdict: Verdict) -> Figures:
    """A prediction beside what was measured."""
    return compared_figures(verdict.predicted, verdict.measured)


def compared_figures(expected: Expected, seen: Measured) -> Figures:
    return {
        **prediction_figures(expected),
        **measured_figures(seen),
        "paceline/error": expected.step_ns / seen.step_ns - 1,
        "paceline/within": float(expected.low_ns <= seen.step_ns <= expected.high_ns),
    }
