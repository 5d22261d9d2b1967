"""How fast workers reach one another, and which of them are neighbours."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from paceline.cluster import Cluster
from paceline.cluster.network import Network

APART: Final = 4.0
"""Workers are far apart where links between them are so many times as slow as the fastest of
either."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Bytes a second and nanoseconds of latency from each worker (row) to each other (column)."""

    bytes_per_s: npt.NDArray[np.float64]
    latency_ns: npt.NDArray[np.int64]

    @staticmethod
    def of(cluster: Cluster) -> "Rates":
        """A path is as fast as its slowest link; a worker reaches itself at once."""
        network, count = Network(cluster), cluster.workers
        rate = np.full((count, count), np.inf)
        latency = np.zeros((count, count), np.int64)
        for source in range(count):
            for target in range(count):
                for link in network.path(source, target):
                    rate[source, target] = min(rate[source, target], network.bytes_per_s[link])
                latency[source, target] = network.path_latency_ns(source, target)
        return Rates(rate, latency)

    @property
    def workers(self) -> int:
        return len(self.bytes_per_s)

    def transfer_ns(self, source: int, target: int, size_bytes: float) -> float:
        if source == target:
            return 0.0
        took = 1e9 * size_bytes / float(self.bytes_per_s[source, target])
        return took + int(self.latency_ns[source, target])


def neighbourhoods(rates: Rates, apart: float = APART) -> tuple[tuple[int, ...], ...]:
    """Workers in groups: who is joined by a link about as fast as the fastest of either is in one.

    Fastest links first, as a spanning tree grows, so that a slow link never joins two groups which
    have faster ones inside.
    """
    both = np.minimum(rates.bytes_per_s, rates.bytes_per_s.T)
    finite = np.where(np.isinf(both), 0.0, both)
    fastest = finite.max(axis=1, initial=0.0)
    group = list(range(rates.workers))
    for one in range(rates.workers):
        for other in range(one):
            if finite[one, other] * apart > max(fastest[one], fastest[other]):
                old, new = group[one], group[other]
                group = [new if each == old else each for each in group]
    members: dict[int, list[int]] = {}
    for worker, number in enumerate(group):
        members.setdefault(number, []).append(worker)
    return tuple(tuple(each) for each in members.values())
