"""Gloo's own algorithms, as its C++ runs them under torch.

All-reduce is a ring in which every member's chunk is cut into two segments or more, each of at most
1 MiB, so that one travels while the other is added. Torch executes reduce-scatter as a whole
all-reduce. All-gather is a ring with two halves a chunk. Between two members both directions share
one connection: the word "ready to receive" of the one that comes last stands behind its own half,
and the other's halves begin one half later (measured: 131 ms for 4.2 MB at 200 Mbit/s, where the
link needs 89, and 1.5 times the link's time at 1 Gbit/s too). Broadcast is a binomial tree of whole
tensors, of which each member hands over all sends at once, so that they share its link: among four
the root's two take as long as two, and the one that is passed on follows (measured: 2.9 times the
link's time for 4.2 MB at 200 Mbit/s). Reduce is the ring's first half, after which all send their
chunk to the root; it passes on (segments - 2) segments instead of those it needs. All-to-all and
gather post all at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import numpy as np

from paceline.cost.collectives.algorithm import Algorithm, Call, Round, everyone_to, messages
from paceline.graph.kinds import Collective


@dataclass(frozen=True)
class Gloo(Algorithm):
    name: ClassVar[str] = "gloo"
    stalls: ClassVar[bool] = True
    serves: ClassVar[frozenset[Collective]] = frozenset(
        {
            Collective.ALL_REDUCE,
            Collective.REDUCE_SCATTER,
            Collective.ALL_GATHER,
            Collective.BROADCAST,
            Collective.REDUCE,
            Collective.ALL_TO_ALL,
            Collective.GATHER,
            Collective.SCATTER,
            Collective.BARRIER,
        }
    )
    segment_bytes: int = 1024 * 1024

    def rounds(self, call: Call) -> list[Round]:
        return _ROUNDS[call.collective](call, self.segment_bytes)


def segments(size_bytes: int, members: int, most_bytes: int) -> int:
    """Segments of the whole tensor: a multiple of the members, two or more each."""
    least = max(ceil(size_bytes / most_bytes), 2 * members)
    return -(-least // members) * members


def _all_reduce(call: Call, most_bytes: int) -> list[Round]:
    n = call.members
    count = segments(call.size_bytes, n, most_bytes)
    steps, size = count - count // n, call.size_bytes / count
    return [
        everyone_to(-1, n, size, steps, reduced=True),
        everyone_to(-1, n, size, steps, reduced=False),
    ]


def _all_gather(call: Call, _: int) -> list[Round]:
    n = call.members
    return [everyone_to(1, n, call.size_bytes / n / 2, _halves(n) + _waited(n), reduced=False)]


def beside_another(members: int) -> float:
    """Of the time that an all-gather takes alone, what it takes where another is under way, as on
    gloo's two threads: while one waits for its word, the other's half passes (measured: six of
    0.52 MB at 25 Mbit/s take 532 ms, as long as the link needs, and 745 one after the other)."""
    return _halves(members) / (_halves(members) + _waited(members))


def _halves(members: int) -> int:
    return 2 * (members - 1)


def _waited(members: int) -> int:
    return int(members == 2)


def _broadcast(call: Call, _: int) -> list[Round]:
    """A member sends to those that lie 1, 2, 4, ... on, from the first beyond its own number."""
    n = call.members
    levels: dict[int, list[tuple[int, int]]] = {}
    for member in range(1, n):
        sender = member - (1 << (member.bit_length() - 1))
        pair = ((sender + call.root) % n, (member + call.root) % n)
        levels.setdefault(sender.bit_count(), []).append(pair)
    rounds = [messages(levels[level], call.size_bytes) for level in sorted(levels)]
    return [rounds[0], *(replace(passed, beside_next=True) for passed in rounds[1:])]


def _reduce(call: Call, most_bytes: int) -> list[Round]:
    n = call.members
    count = segments(call.size_bytes, n, most_bytes)
    ring = everyone_to(-1, n, call.size_bytes / count, count - 2, reduced=True)
    return [ring, *_gather_of(call, call.size_bytes / n)]


def _all_to_all(call: Call, _: int) -> list[Round]:
    n = call.members
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    return [messages(pairs, call.size_bytes / n)]


def _gather(call: Call, _: int) -> list[Round]:
    return _gather_of(call, call.size_bytes / call.members)


def _scatter(call: Call, _: int) -> list[Round]:
    others = [member for member in range(call.members) if member != call.root]
    return [messages([(call.root, o) for o in others], call.size_bytes / call.members)]


def _gather_of(call: Call, size_bytes: float) -> list[Round]:
    others = [member for member in range(call.members) if member != call.root]
    return [messages([(o, call.root) for o in others], size_bytes)]


def _barrier(call: Call, _: int) -> list[Round]:
    """Log2(n) empty messages to members 1, 2, 4, ... on."""
    n = call.members
    distances = 2 ** np.arange(max(1, (n - 1).bit_length()))
    return [everyone_to(int(d), n, 0.0, 1, reduced=False) for d in distances]


_ROUNDS: dict[Collective, Callable[[Call, int], list[Round]]] = {
    Collective.ALL_REDUCE: _all_reduce,
    Collective.REDUCE_SCATTER: _all_reduce,  # as torch executes it on gloo
    Collective.ALL_GATHER: _all_gather,
    Collective.BROADCAST: _broadcast,
    Collective.REDUCE: _reduce,
    Collective.ALL_TO_ALL: _all_to_all,
    Collective.GATHER: _gather,
    Collective.SCATTER: _scatter,
    Collective.BARRIER: _barrier,
}
