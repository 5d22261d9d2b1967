"""The load as it is seen from the queue, and the batch to plan for.

Much as Packrat does it: the samples that wait or run, averaged with a weight of a tenth for the
newest, then the nearest power of two; of the last ten such values the one that came most often.
Packrat rounds down: an average that comes from below then stays at half of a steady load.
"""

from collections import Counter
from dataclasses import dataclass
from math import log2
from typing import Final

NEWEST: Final = 0.1
KEPT: Final = 10


@dataclass(frozen=True)
class Load:
    """What was seen up to now."""

    average: float = 0.0
    recent: tuple[int, ...] = ()

    def seen(self, samples: int) -> "Load":
        """After one more look, at which so many samples waited or ran."""
        first = not self.recent
        average = float(samples) if first else self.average + NEWEST * (samples - self.average)
        return Load(average, (*self.recent, power_of_two(average))[-KEPT:])

    @property
    def batch(self) -> int | None:
        """The batch to plan for; None before there were enough looks. Of equals the newest."""
        if len(self.recent) < KEPT:
            return None
        counted = Counter(self.recent)
        most = max(counted.values())
        return next(size for size in reversed(self.recent) if counted[size] == most)


def power_of_two(value: float) -> int:
    """The nearest, by ratio; at least 1."""
    return 1 << max(0, round(log2(max(value, 1.0))))
