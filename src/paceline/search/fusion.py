"""When two ops, and when two tensors, are better made one: the rules of dPRO (Hu et al., "dPRO: A
Generic Performance Diagnosis and Optimization Toolkit for Expediting Distributed DNN Training",
MLSys 2022), and the buckets that they give.

p are ops of the backward pass in their order and q the exchanges of their gradients; d is how long
one takes and e when it ends. How many parts an exchange is best cut into, k*, is told by
`strategies.partition.best_parts`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cluster import Cluster, Network
from paceline.cost import Rates
from paceline.cost.collectives import Call
from paceline.graph import Collective
from paceline.graph.gradients import gradients_of, reducing
from paceline.graph.graph import Int64
from paceline.graph.links import Links
from paceline.replay import Timeline
from paceline.strategies.buckets import Buckets
from paceline.strategies.partition import best_parts, exchange_ns, stages_of

Sync = Callable[[int], float]
"""How long the exchange of so many bytes takes, in its best number of parts."""


def fuse_ops(earlier_sync_d: float, earlier_d: float, later_d: float, fused_d: float) -> bool:
    """Two ops are fused where the exchange of the earlier one's gradient, which then begins later,
    is shorter than what fusing saves: q_(n-1)^d < p_(n-1)^d + p_n^d - fused."""
    return earlier_sync_d < earlier_d + later_d - fused_d


def fuse_tensors(earlier_sync_e: float, later_e: float, both_d: float, later_sync_d: float) -> bool:
    """Two gradients are exchanged as one where the earlier one's exchange ends too late to pay:
    q_(n-1)^e > p_n^e + t(s_(n-1) + s_n, k*) - t(s_n, k*)."""
    return earlier_sync_e > later_e + both_d - later_sync_d


@dataclass(frozen=True)
class Ready:
    """Gradients of one rank in the order in which they are there."""

    at_ns: tuple[int, ...]
    size_bytes: tuple[int, ...]

    @staticmethod
    def of(timeline: Timeline) -> "Ready | None":
        """Of the first rank's first step; None where the job does not tell."""
        graph, known = timeline.graph, gradients_of(timeline.graph)
        first = int(graph.ops.rank.min(initial=0))
        rows = (graph.ops.rank[known.op] == first) & (
            graph.ops.step[known.op] == graph.ops.step.min(initial=0)
        )
        if not rows.any():
            return None
        op, parameter = known.op[rows], known.parameter[rows]
        order = np.argsort(timeline.end_ns[op], kind="stable")
        sizes = [graph.facts.parameters[p].size_bytes for p in parameter[order].tolist()]
        return Ready(tuple(timeline.end_ns[op][order].tolist()), tuple(sizes))


def fused_tensors(ready: Ready, sync: Sync) -> tuple[int, ...]:
    """Bytes of each bucket, by walking the gradients in turn and fusing each with the bucket before
    it where the rule says so."""
    sizes: list[int] = []
    free_ns = begun_ns = 0.0  # when the exchange before the last bucket's ends, and its own begins
    for at_ns, size in zip(ready.at_ns, ready.size_bytes, strict=True):
        if sizes:
            ends = begun_ns + sync(sizes[-1])
            if fuse_tensors(ends, at_ns, sync(sizes[-1] + size), sync(size)):
                sizes[-1] += size
                begun_ns = max(free_ns, at_ns)
                continue
            free_ns = ends
        sizes.append(size)
        begun_ns = max(free_ns, at_ns)
    return tuple(sizes)


def proposed(sizes: Sequence[int]) -> Iterator[Buckets]:
    """Buckets as DDP can be told: a limit for the first, and one for all others."""
    first, others = sizes[0], sizes[1:] or sizes
    for limit in {min(others), sorted(others)[len(others) // 2], max(others), sum(sizes)}:
        yield Buckets(max(1, limit))
        yield Buckets(max(1, limit), max(1, first))


def ops_worth_fusing(before: Ready, after: Ready, sync: Sync) -> bool:
    """Whether a change that makes ops faster pays for some two neighbours of the backward pass."""
    old, new = before.at_ns, after.at_ns
    if len(old) != len(new) or len(old) < 3:
        return True  # nothing to go by
    return any(
        fuse_ops(sync(before.size_bytes[n - 1]), old[n - 1] - old[n - 2], old[n] - old[n - 1],
                 new[n] - new[n - 2])
        for n in range(2, len(old))
    )  # fmt: skip


def sync_of(timeline: Timeline, cluster: Cluster | None, rates: Rates) -> Sync | None:
    """By the cluster's links; as recorded, by the line through what was recorded. None where no
    exchange of gradients is seen, or all are of one size."""
    graph = timeline.graph
    calls = reducing(graph, Links.of(graph))
    if not len(calls):
        return None
    if cluster is None:
        return _recorded(graph.ops.size_bytes[calls], timeline.dur_ns[calls])
    ranks = graph.groups[int(graph.ops.group[calls[0]])].ranks
    network, library = Network(cluster), rates.library_of(cluster)
    hosts = tuple(cluster.place_of(rank)[0] for rank in ranks)
    known: dict[int, float] = {}

    def sync(size_bytes: int) -> float:
        if size_bytes not in known:
            call = Call(Collective.ALL_REDUCE, max(2, size_bytes), hosts)
            stages = stages_of(call, network, ranks, library)
            known[size_bytes] = exchange_ns(size_bytes, stages, best_parts(size_bytes, stages))
        return known[size_bytes]

    return sync


def _recorded(size_bytes: Int64, dur_ns: Int64) -> Sync | None:
    if len(np.unique(size_bytes)) < 2:
        return None
    slope, start = np.polyfit(size_bytes, dur_ns, 1)
    return lambda size: float(max(0.0, start) + max(0.0, slope) * size)
