"""What a prediction says of memory: each rank's peak by category, and whether a limit holds it."""

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.replay.memory_by_rank import RankPeak


@dataclass(frozen=True)
class Fit:
    """Whether the fullest rank stays within a limit."""

    limit_bytes: int
    peak_bytes: int
    rank: int
    largest: str  # category of most bytes at the peak
    largest_bytes: int

    @property
    def fits(self) -> bool:
        return self.peak_bytes <= self.limit_bytes

    @property
    def spare_bytes(self) -> int:
        """Left of the limit; negative where the peak misses it by so much."""
        return self.limit_bytes - self.peak_bytes


@dataclass(frozen=True)
class PeakMemory:
    """The peak of every rank. Counted is what torch's allocator gives out on a rank's device:
    weights with buffers, gradients, optimizer state, DDP's buckets, the batch, activations, and
    temporary results. What libraries allocate by themselves (gloo, oneDNN, a CUDA context), and
    what an allocator keeps in reserve, is not in it."""

    ranks: tuple[RankPeak, ...]

    @property
    def fullest(self) -> RankPeak:
        return max(self.ranks, key=lambda peak: peak.peak_bytes)

    @property
    def peak_bytes(self) -> int:
        return self.fullest.peak_bytes

    @property
    def by_category(self) -> Mapping[str, int]:
        """Of the rank with the largest peak, when it has it."""
        return self.fullest.by_category

    def fit(self, limit_bytes: int) -> Fit:
        peak = self.fullest
        largest = max(peak.by_category, key=lambda name: peak.by_category[name])
        size = peak.by_category[largest]
        return Fit(limit_bytes, peak.peak_bytes, peak.rank, largest, size)
