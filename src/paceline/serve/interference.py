"""`Interference`: by how much an instance slows when others keep the remaining cores busy.

Measured as the time among instances of as many threads, over the time alone. Between measured
batches it moves with the logarithm of the batch; beyond them it stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from paceline.serve.points import Latency, Point, between_threads


@dataclass(frozen=True)
class Interference:
    """Factors by threads, then by batch; none where there is one core alone."""

    factors: Mapping[int, Mapping[int, float]]

    @staticmethod
    def of(alone: Latency, crowded: Sequence[Point]) -> "Interference":
        """A factor below 1 is noise: neighbours make nothing faster."""
        found: dict[int, dict[int, float]] = {}
        for point in crowded:
            factor = point.median_ns / alone.ns(point.threads, point.batch)
            found.setdefault(point.threads, {})[point.batch] = max(1.0, factor)
        return Interference(found)

    def factor(self, threads: int, batch: int) -> float:
        if not self.factors:
            return 1.0

        def at(known: int) -> float:
            batches = sorted(self.factors[known])
            values = [self.factors[known][one] for one in batches]
            return float(np.interp(log2(batch), [log2(one) for one in batches], values))

        return between_threads(sorted(self.factors), threads, at)
