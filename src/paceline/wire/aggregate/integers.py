"""Integer aggregation with a shared exponent (SwitchML, NSDI 2021): switches add integers only.

All workers learn the largest magnitude of any, scale by the power of two at which the sum of all
fits, and round. Integer sums do not depend on order, so every worker gets the same bits. Wrong
where: values smaller than the largest times 2^-30 times the workers' number round to zero.
"""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.wire.aggregate.rounds import Array, Floats, RoundRequest, Rounds, SwitchOp
from paceline.wire.errors import WireError

Integers = NDArray[np.int32]


@dataclass(frozen=True)
class Scale:
    """A power of two between values and integers."""

    exponent: int

    @staticmethod
    def for_sum(largest: float, workers: int) -> "Scale":
        """At which `workers` values of the largest magnitude add up without wrapping round."""
        if not np.isfinite(largest):
            raise WireError(f"a gradient holds {largest}: integers cannot carry it; use dense")
        if largest == 0:
            return Scale(0)
        bits = 30 - (workers - 1).bit_length()
        return Scale(bits - int(np.frexp(largest)[1]))

    def integers(self, values: Floats) -> Integers:
        return np.rint(values * np.float64(2.0**self.exponent)).astype(np.int32)

    def values(self, integers: Array) -> Floats:
        return (integers * np.float64(2.0**-self.exponent)).astype(np.float32)


def shared_scale(gradient: Floats, workers: int) -> Generator[RoundRequest, Array, Scale]:
    """A round that finds the largest magnitude of all workers."""
    largest = np.array([np.abs(gradient).max(initial=0)], np.float32)
    found = yield RoundRequest(SwitchOp.MAX, largest)
    return Scale.for_sum(float(found[0]), workers)


@dataclass(frozen=True)
class Integer:
    """The mode: dense, as integers."""

    workers: int

    def __call__(self, gradient: Floats) -> Rounds:
        scale = yield from shared_scale(gradient, self.workers)
        total = yield RoundRequest(SwitchOp.SUM, scale.integers(gradient))
        return scale.values(total)
