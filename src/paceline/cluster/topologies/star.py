"""Star: every port in one switch that never blocks. What a bridge in one machine is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from paceline.cluster.topologies.topology import Cable, Port, Topology, plug


@dataclass(frozen=True)
class Star(Topology):
    kind: ClassVar[str] = "star"

    def cables(self, ports: Sequence[Port]) -> list[Cable]:
        switch = len(ports)
        return [plug(i, port, switch) for i, port in enumerate(ports)]
