"""Hierarchical (BlueConnect): reduce-scatter within each host, all-reduce across hosts, all-gather.

Each member carries only S/m across the network, m members a host: the slow links see 1/m of the
ring's bytes a member. Cho et al., "BlueConnect" (MLSys 2019). Needs equally many members on each
host.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from paceline.cluster.quantities import ClusterError
from paceline.cost.collectives.algorithm import Algorithm, Call, Round, messages
from paceline.graph.kinds import Collective


@dataclass(frozen=True)
class Hierarchical(Algorithm):
    name: ClassVar[str] = "hierarchical"
    serves: ClassVar[frozenset[Collective]] = frozenset(
        {Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER}
    )

    def rounds(self, call: Call) -> list[Round]:
        inside = by_host(call.hosts)
        m, h = len(inside[0]), len(inside)
        across = [list(column) for column in zip(*inside)]
        size = float(call.size_bytes)
        add = _rings(inside, size / m, True) + _rings(across, size / (m * h), True)
        spread = _rings(across, size / (m * h), False) + _rings(inside, size / m, False)
        return {
            Collective.ALL_REDUCE: add + spread,
            Collective.REDUCE_SCATTER: add,
            Collective.ALL_GATHER: spread,
        }[call.collective]


def by_host(hosts: Sequence[int]) -> list[list[int]]:
    """Members of each host; refuses hosts of unequal numbers."""
    found: dict[int, list[int]] = {}
    for member, host in enumerate(hosts):
        found.setdefault(host, []).append(member)
    if len(set(map(len, found.values()))) > 1:
        raise ClusterError(
            f"a hierarchical collective needs equally many members on each host; found "
            f"{sorted(map(len, found.values()))}. Choose ring."
        )
    return list(found.values())


def _rings(groups: Sequence[Sequence[int]], size_bytes: float, reduced: bool) -> list[Round]:
    """All groups' rings at once, n - 1 steps of `size_bytes` each."""
    n = len(groups[0])
    if n == 1:
        return []
    edges = [(g[i], g[(i + 1) % n]) for g in groups for i in range(n)]
    return [messages(np.array(edges).tolist(), size_bytes, n - 1, reduced=reduced)]
