"""Full mesh: a cable of its own for every pair of ports."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from paceline.cluster.topologies.topology import Cable, Port, Topology, between


@dataclass(frozen=True)
class FullMesh(Topology):
    kind: ClassVar[str] = "full-mesh"

    def cables(self, ports: Sequence[Port]) -> list[Cable]:
        return [between(a, ports[a], b, ports[b]) for a, b in combinations(range(len(ports)), 2)]
