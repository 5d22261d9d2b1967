"""Two levels: leaves that hosts plug into, and spines that join the leaves.

With oversubscription k a leaf's cables to all spines together carry 1/k of what its hosts can
send. Each leaf has one cable to each spine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from paceline.cluster.quantities import ClusterError
from paceline.cluster.topologies.topology import Cable, Port, Topology, chunks, plug, trunk


@dataclass(frozen=True)
class LeafSpine(Topology):
    kind: ClassVar[str] = "leaf-spine"
    hosts_per_leaf: int = 2  # ports, where hosts have several
    spines: int = 1
    oversubscription: float = 1.0

    def __post_init__(self) -> None:
        if self.hosts_per_leaf < 1 or self.spines < 1 or self.oversubscription <= 0:
            raise ClusterError(
                f"leaf-spine with hosts_per_leaf={self.hosts_per_leaf}, spines={self.spines}, "
                f"oversubscription={self.oversubscription}; each must be above zero"
            )

    def cables(self, ports: Sequence[Port]) -> list[Cable]:
        leaves = chunks(len(ports), self.hosts_per_leaf)
        first_leaf, first_spine = len(ports), len(ports) + len(leaves)
        found = []
        for leaf, members in enumerate(leaves, first_leaf):
            found += [plug(i, ports[i], leaf) for i in members]
            if len(leaves) > 1:
                up = sum(ports[i].up_bytes_per_s for i in members)
                down = sum(ports[i].down_bytes_per_s for i in members)
                share = self.oversubscription * self.spines
                latency = max(ports[i].latency_ns for i in members)
                found += [
                    trunk(leaf, first_spine + s, up / share, down / share, latency)
                    for s in range(self.spines)
                ]
        return found
