"""Workers whose hosts give them less than a core (`cpus` below 1), as steps of a training feel it.

A step lasts many periods of a quota and hardly waits, so its budget is always spent: work takes
1 / `cpus` times as long. Where workers share a machine's cores, such a worker has a part of a core
to itself, of which its messages take what their bytes cost, and the others share the rest. A quota
of more than a worker's fair share of the cores changes nothing.

Wrong where steps are short or wait long, for then a quota's budget comes back (`replay.quota`, by
which `learn.times` prices rounds): work then takes less.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.graph import Graph, LaneKind
from paceline.graph.scaled import works
from paceline.predict.sharing import Shared
from paceline.replay.cores import fair_shares
from paceline.replay.hosts import SharedHosts


def slowed(graph: Graph, cluster: Cluster) -> Graph:
    """What processors do takes longer; kernels of a device take what they take. For workers that
    share no cores; others have `seats`."""
    shares = [_share(cluster, rank) for rank in range(graph.world_size)]
    if all(share == 1 for share in shares):
        return graph
    dur = graph.ops.dur_ns.copy()
    mine = works(graph) & (dur > 0) & (graph.lanes.kind[graph.ops.lane] != LaneKind.STREAM)
    dur[mine] = np.rint(dur[mine] / np.array(shares)[graph.ops.rank[mine]])
    return replace(graph, ops=replace(graph.ops, dur_ns=dur))


@dataclass(frozen=True)
class Seats:
    """Where workers find their cores: machine by rank, and cores by machine. Who has less of a core
    than its fair share has a machine of its own; all others share what these leave."""

    machine: tuple[int, ...]
    cores: tuple[float, ...]
    held: tuple[bool, ...]  # by rank: by its quota, on a machine of its own

    @property
    def crowded(self) -> bool:
        """Whether workers are more than the cores that they share."""
        return not all(self.held) and self.held.count(False) > self.cores[0]

    def hosts(self, graph: Graph, shared: Shared) -> SharedHosts:
        """Who is held by a quota leaves cores idle: its communication neither waits for a thread's
        turn nor costs more for work that takes all of them."""
        waits = ~np.array(self.held)[graph.ops.rank]
        turn_ns, beside_ns = shared.turn_ns * waits, shared.beside_ns * waits
        return SharedHosts(self.machine, self.cores, shared.cpu_ns, turn_ns, beside_ns)


def seats(cluster: Cluster, machine: Machine) -> Seats:
    """All workers on the machine, each with its host's quota."""
    shares = [_share(cluster, rank) for rank in range(cluster.workers)]
    given = fair_shares(shares, machine.cores)
    held = tuple(share < 1 and got == share for share, got in zip(shares, given))
    quotas = [share for share, alone in zip(shares, held) if alone]
    rest = () if all(held) else (machine.cores - sum(quotas),)
    numbers = count(len(rest))
    return Seats(tuple(next(numbers) if alone else 0 for alone in held), (*rest, *quotas), held)


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
