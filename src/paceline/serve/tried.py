"""`Tried`: a division of a batch that was run for real, beside others in turn.

A profile's points are of one instance alone and of equal ones; which of two close divisions is
faster is told by running both.
"""

from dataclasses import dataclass

from paceline.serve.knapsack import InstanceShare


@dataclass(frozen=True)
class Tried:
    """Instances with their parts of the batch, the largest first, and the median of their runs."""

    shares: tuple[InstanceShare, ...]
    median_ns: float
    runs: int

    @property
    def batch(self) -> int:
        return sum(share.batch for share in self.shares)
