"""Several rings at once, one for each member of a host, so that every NIC carries its share.

Ring c visits the hosts in the same order but starts one device further in each, so it enters and
leaves by another NIC. What NCCL's channels do; the formula is the ring's with all NICs' rates.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from paceline.cost.collectives.algorithm import Algorithm, Call, Round
from paceline.graph.kinds import Collective


@dataclass(frozen=True)
class MultiRing(Algorithm):
    name: ClassVar[str] = "multi-ring"
    serves: ClassVar[frozenset[Collective]] = frozenset(
        {Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER}
    )

    def rounds(self, call: Call) -> list[Round]:
        orders = _orders(call.hosts)
        n, share = call.members, call.size_bytes / call.members / len(orders)
        src = np.concatenate(orders)
        dst = np.concatenate([np.roll(order, -1) for order in orders])
        add = Round(src, dst, np.full(len(src), share), n - 1, True)
        spread = Round(src, dst, np.full(len(src), share), n - 1, False)
        return {
            Collective.ALL_REDUCE: [add, spread],
            Collective.REDUCE_SCATTER: [add],
            Collective.ALL_GATHER: [spread],
        }[call.collective]


def _orders(hosts: tuple[int, ...]) -> list[NDArray[np.int64]]:
    """One visiting order a ring. On a single host one ring has all the links already."""
    members: dict[int, list[int]] = {}
    for member, host in enumerate(hosts):
        members.setdefault(host, []).append(member)
    rings = 1 if len(members) == 1 else max(map(len, members.values()))
    return [
        np.concatenate([np.roll(own, -(c % len(own))) for own in members.values()])
        for c in range(rings)
    ]
