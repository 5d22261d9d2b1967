"""`Ways`: which links of a network the messages of a round cross, whatever they carry."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from paceline.cluster.network import Network
from paceline.cost.collectives.algorithm import Round

Loads = NDArray[np.float64]
"""Bytes by link of the network."""

KEPT, FEW = 64, 10_000
"""Patterns of messages that are remembered of a network, and how many messages one may have."""


@dataclass(frozen=True, eq=False)
class Ways:
    """One row for each link that a message crosses."""

    links: NDArray[np.int64]
    message: NDArray[np.int64]  # which message of the round crosses it
    messages: int
    used: NDArray[np.bool_]  # by link of the network
    latency_ns: int  # of the longest path

    def load(self, step: Round) -> Loads:
        """Of the round's messages, or of others that go the same ways."""
        size = step.size_bytes[self.message].astype(np.float64)
        return np.bincount(self.links, size, len(self.used)).astype(np.float64)


def ways_of(step: Round, network: Network, workers: Sequence[int]) -> Ways:
    """Remembered: calls of all sizes have a few patterns."""
    place = np.asarray(workers, np.int64)
    src, dst = place[step.src], place[step.dst]
    if len(src) > FEW:
        return _found(network, src, dst)
    known = _known.setdefault(network, OrderedDict())
    key = src.tobytes(), dst.tobytes()
    if key not in known:
        known[key] = _found(network, src, dst)
        while len(known) > KEPT:
            known.popitem(last=False)
    return known[key]


_known: "WeakKeyDictionary[Network, OrderedDict[tuple[bytes, bytes], Ways]]" = WeakKeyDictionary()


def _found(network: Network, src: NDArray[np.int64], dst: NDArray[np.int64]) -> Ways:
    paths = [network.path(s, d) for s, d in zip(src.tolist(), dst.tolist())]
    count = np.fromiter(map(len, paths), np.int64, len(paths))
    links = np.fromiter(chain.from_iterable(paths), np.int64, int(count.sum()))
    message = np.repeat(np.arange(len(paths)), count)
    used = np.zeros(len(network.links), np.bool_)
    used[links] = True
    latency = np.bincount(message, network.latency_ns[links], len(paths)).max()
    return Ways(links, message, len(paths), used, int(latency))
