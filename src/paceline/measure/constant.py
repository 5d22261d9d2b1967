"""`Constant`: one measured value with the interval that its repetitions leave to it."""

import math
from dataclasses import dataclass

from paceline.measure.errors import MeasureError


@dataclass(frozen=True)
class Constant:
    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (0 <= self.low <= self.value <= self.high < math.inf):
            raise MeasureError(
                f"a constant of {self.value:g}, from {self.low:g} to {self.high:g}: it must be "
                "zero or more, and lie in its interval. Measure again"
            )

    @staticmethod
    def around(value: float, half: float) -> "Constant":
        """A value, not below zero, with half the width of its interval."""
        middle = max(0.0, value)
        return Constant(middle, max(0.0, middle - half), middle + half)
