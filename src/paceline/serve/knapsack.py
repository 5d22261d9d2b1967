"""How to divide a batch and the cores among instances: exact, by dynamic programming.

    opt[t][b] = min over (t', b') of max(opt[t - t'][b - b'], latency[t'][b'])

is the least time in which instances of t threads in all do b samples at once: a knapsack of two
dimensions (Packrat, arXiv 2311.18174). Cores may stay idle: opt[t][0] = 0. Of the divisions of
least time, one with the fewest instances is given.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.float64]
"""Time by threads (row) and batch (column); row 0 and column 0 are not used."""


@dataclass(frozen=True, order=True)
class InstanceShare:
    """One instance: its threads, and its part of the batch."""

    threads: int
    batch: int


def divided(latency: Table, cores: int, batch: int) -> tuple[float, tuple[InstanceShare, ...]]:
    """Least time of the batch, and the instances that reach it, the largest first."""
    least = _least(latency, cores, batch)
    within = np.where(latency <= least, 1.0, np.inf)
    shares = _fewest(within, cores, batch)
    return least, tuple(sorted(shares, reverse=True))


def _least(latency: Table, cores: int, batch: int) -> float:
    """opt[cores][batch]."""
    before, taken = _splits(batch)
    opt = np.full((cores + 1, batch + 1), np.inf)
    opt[:, 0] = 0.0
    for threads in range(1, cores + 1):
        for of_one in range(1, threads + 1):
            rest = opt[threads - of_one][before]
            both = np.maximum(rest, np.where(taken > 0, latency[of_one][taken], np.inf))
            np.minimum(opt[threads], both.min(axis=1), out=opt[threads])
    return float(opt[cores][batch])


def _fewest(cost: Table, cores: int, batch: int) -> list[InstanceShare]:
    """Instances of least cost in sum that do the whole batch; argmins are kept for the way back."""
    before, taken = _splits(batch)
    opt = np.full((cores + 1, batch + 1), np.inf)
    opt[:, 0] = 0.0
    chosen = np.zeros((cores + 1, batch + 1, 2), dtype=np.int64)  # threads and samples of one
    for threads in range(1, cores + 1):
        for of_one in range(1, threads + 1):
            both = opt[threads - of_one][before] + np.where(taken > 0, cost[of_one][taken], np.inf)
            at = both.argmin(axis=1)
            value = both[np.arange(batch + 1), at]
            better = value < opt[threads]
            opt[threads][better] = value[better]
            chosen[threads][better, 0] = of_one
            chosen[threads][better, 1] = taken[np.arange(batch + 1), at][better]
    return _way_back(chosen, cores, batch)


def _way_back(chosen: npt.NDArray[np.int64], cores: int, batch: int) -> list[InstanceShare]:
    shares = []
    while batch:
        of_one, samples = (int(value) for value in chosen[cores][batch])
        shares.append(InstanceShare(of_one, samples))
        cores, batch = cores - of_one, batch - samples
    return shares


def _splits(batch: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each batch (row) and each part of it that one instance takes (column): what is left, and
    the part; a part of more than the batch counts as none."""
    whole, part = np.meshgrid(np.arange(batch + 1), np.arange(batch + 1), indexing="ij")
    taken = np.where(part <= whole, part, 0)
    return whole - taken, taken
