"""`ServingProfile`: what was measured of a model on a machine, and any instance's latency by it.

An instance alone is measured at powers of two of threads and batch. Instances that run at once slow
each other (memory, caches, clocks): how much is measured too, with all cores busy. Then the plan
that this tells for each of those batches and the plain choices are run in turn (`tried`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from paceline.serve.errors import ServeError
from paceline.serve.interference import Interference
from paceline.serve.knapsack import InstanceShare
from paceline.serve.points import Latency, Point
from paceline.serve.tried import Tried


@dataclass(frozen=True)
class Fingerprint:
    """What a profile is of: with any other of these it says nothing."""

    model: str  # digest of the file, the function, and the shapes of inputs and weights
    torch: str
    machine: str


@dataclass(frozen=True)
class ServingProfile:
    """Times of a model on up to `cores` cores and `batch` samples."""

    fingerprint: Fingerprint
    cores: int
    batch: int
    points: tuple[Point, ...]
    date: str
    tried: tuple[Tried, ...] = ()
    prepacked: bool | None = None  # weights that it is of; None where both were not compared

    @cached_property
    def alone(self) -> Latency:
        """Of an instance beside which nothing runs."""
        return Latency([point for point in self.points if not point.crowded])

    @cached_property
    def stretch(self) -> Interference:
        """By how much instances slow each other when they keep all cores busy."""
        return Interference.of(self.alone, [point for point in self.points if point.crowded])

    def batch_ns(self, shares: Sequence[InstanceShare]) -> float:
        """Until the last of these instances has done its part: as tried, else by the points."""
        ordered = tuple(sorted(shares, reverse=True))
        for one in self.tried:
            if one.shares == ordered:
                return one.median_ns
        time = self.alone_ns if len(shares) == 1 else self.crowded_ns
        return max(time(share.threads, share.batch) for share in shares)

    def alone_ns(self, threads: int, batch: int) -> float:
        return self.alone.ns(threads, batch)

    def crowded_ns(self, threads: int, batch: int) -> float:
        """Of one instance of several."""
        return self.alone.ns(threads, batch) * self.stretch.factor(threads, batch)

    def require(self, cores: int, batch: int) -> None:
        """An error where the profile does not reach so far."""
        if cores > self.cores or batch > self.batch:
            raise ServeError(
                f"the profile reaches to {self.cores} cores and batches of {self.batch}; asked are "
                f"{cores} cores and {batch}. Measure again with --fresh-profile"
            )


def sizes(most: int) -> tuple[int, ...]:
    """Powers of two up to `most`, and `most`: what is measured."""
    if most < 1:
        raise ServeError(f"{most} given; threads, cores and batches are 1 or more")
    powers = [1 << power for power in range(most.bit_length())]
    return tuple(sorted({*powers, most}))
