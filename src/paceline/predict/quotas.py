"""Workers whose hosts give them less than a core (`cpus` below 1), as steps of a training feel it.

A step lasts many periods of a quota and hardly waits, so its budget is always spent: work takes
1 / `cpus` times as long. Where workers share a machine's cores, such work wants only its share of
one, so that the machine has room for as many more.

Wrong where steps are short or wait long, for then a quota's budget comes back (`replay.quota`, by
which `learn.times` prices rounds): work then takes less. Where quotas differ and cores are short
as well, their shares are taken to be those of a mean worker.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.graph import Graph, LaneKind
from paceline.graph.scaled import works


def slowed(graph: Graph, cluster: Cluster) -> Graph:
    """What processors do takes longer; kernels of a device take what they take."""
    shares = [_share(cluster, rank) for rank in range(graph.world_size)]
    if all(share == 1 for share in shares):
        return graph
    dur = graph.ops.dur_ns.copy()
    mine = works(graph) & (dur > 0) & (graph.lanes.kind[graph.ops.lane] != LaneKind.STREAM)
    dur[mine] = np.rint(dur[mine] / np.array(shares)[graph.ops.rank[mine]])
    return replace(graph, ops=replace(graph.ops, dur_ns=dur))


def room(machine: Machine, cluster: Cluster) -> Machine:
    """The machine as stretched work shares it: with up to a core for each worker, and what a byte
    takes of them as large a part of them as ever."""
    shares = [_share(cluster, rank) for rank in range(cluster.workers)]
    times = max(1.0, min(len(shares) / sum(shares), len(shares) / machine.cores))
    return replace(
        machine,
        cores=machine.cores * times,
        cpu_ns_per_byte=machine.cpu_ns_per_byte * times,
        send_ns_per_byte=machine.send_ns_per_byte * times,
        fast_beside_ns_per_byte=machine.fast_beside_ns_per_byte * times,
        slow_beside_ns_per_byte=machine.slow_beside_ns_per_byte * times,
        call_beside_ns=machine.call_beside_ns * times,
    )


def rests_on(cluster: Cluster) -> Iterator[str]:
    """What a prediction takes quotas for."""
    if any(_share(cluster, rank) < 1 for rank in range(cluster.workers)):
        yield (
            "hosts with less than a core for a worker: work takes 1 / cpus times as long, as where "
            "a quota's budget is always spent"
        )


def _share(cluster: Cluster, rank: int) -> float:
    """Of a core, that a worker has; 1 where it has one or more."""
    cpus = cluster.hosts[cluster.place_of(rank)[0]].cpus
    return cpus if 0 < cpus < 1 else 1.0
