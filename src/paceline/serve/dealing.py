"""How the samples at hand are dealt to the instances that are free: the last is done soonest."""

import heapq
from collections.abc import Callable, Sequence

from paceline.serve.knapsack import InstanceShare

Time = Callable[[int, int], float]
"""Nanoseconds of an instance, by its threads and samples."""


def dealt(samples: int, free: Sequence[InstanceShare], time: Time) -> tuple[int, ...]:
    """Samples for each free instance, at most its share's batch.

    One sample after the other goes to where it ends first, which makes the last end as early as
    can be where a larger batch never takes less time.
    """
    parts = [0] * len(free)
    ends = [(time(share.threads, 1), number) for number, share in enumerate(free)]
    heapq.heapify(ends)
    for _ in range(min(samples, sum(share.batch for share in free))):
        _, number = heapq.heappop(ends)
        parts[number] += 1
        if parts[number] < free[number].batch:
            heapq.heappush(ends, (time(free[number].threads, parts[number] + 1), number))
    return tuple(parts)
