"""Custom: cables listed by hand. Ends are host names (their first NIC) or switch names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from paceline.cluster.quantities import ClusterError
from paceline.cluster.topologies.topology import Cable, Port, Topology


@dataclass(frozen=True)
class Custom(Topology):
    """`edges` are (a, b, bytes/s from a to b, bytes/s from b to a, latency ns); a node below
    `ports` is a host's port, others are switches."""

    kind: ClassVar[str] = "custom"
    edges: tuple[tuple[int, int, float, float, int], ...] = ()

    def cables(self, ports: Sequence[Port]) -> list[Cable]:
        for a, b, ab, ba, _ in self.edges:
            if a == b or min(ab, ba) <= 0:
                raise ClusterError(
                    f"cable {a}-{b} at {ab:g} and {ba:g} bytes/s; ends must differ "
                    "and both rates must be above zero"
                )
        return [Cable(*edge) for edge in self.edges]
