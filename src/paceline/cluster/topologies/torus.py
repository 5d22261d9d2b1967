"""Torus: ports on a grid of `dims`, each cabled to its neighbours in every dimension, wrapped."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from paceline.cluster.quantities import ClusterError
from paceline.cluster.topologies.topology import Cable, Port, Topology, between


@dataclass(frozen=True)
class Torus(Topology):
    kind: ClassVar[str] = "torus"
    dims: tuple[int, ...] = ()

    def cables(self, ports: Sequence[Port]) -> list[Cable]:
        if prod(self.dims) != len(ports) or not self.dims:
            raise ClusterError(
                f"a torus of {'x'.join(map(str, self.dims)) or 'no dims'} does not hold exactly "
                f"{len(ports)} ports; give dims whose product is {len(ports)}"
            )
        found, stride = [], 1
        for length in self.dims:
            for i in range(len(ports)):
                place = i // stride % length
                if length < 2 or (length == 2 and place == 1):
                    continue
                j = i + ((place + 1) % length - place) * stride
                found.append(between(i, ports[i], j, ports[j]))
            stride *= length
        return found
