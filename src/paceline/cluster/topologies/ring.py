"""Ring: each port is cabled to the next one, and hosts pass on what is not theirs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from paceline.cluster.topologies.topology import Cable, Port, Topology, between


@dataclass(frozen=True)
class Ring(Topology):
    kind: ClassVar[str] = "ring"

    def cables(self, ports: Sequence[Port]) -> list[Cable]:
        pairs = [(i, (i + 1) % len(ports)) for i in range(len(ports))]
        if len(ports) == 2:
            pairs = pairs[:1]
        return [between(a, ports[a], b, ports[b]) for a, b in pairs if a != b]
