"""Fat tree of k-port switches (k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores).

Without k the smallest one that holds all ports is taken: k^3/4 ports fit. All cables are as fast
as the fastest port, so that any pairing of ports can run at full rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from paceline.cluster.quantities import ClusterError
from paceline.cluster.topologies.topology import Cable, Port, Topology, plug, trunk


@dataclass(frozen=True)
class FatTree(Topology):
    kind: ClassVar[str] = "fat-tree"
    k: int = 0

    def __post_init__(self) -> None:
        if self.k < 0 or self.k % 2:
            raise ClusterError(f"fat-tree with k={self.k}; give an even number of ports a switch")

    def cables(self, ports: Sequence[Port]) -> list[Cable]:
        k = self.k or _smallest(len(ports))
        if len(ports) > k**3 // 4:
            raise ClusterError(
                f"{len(ports)} ports do not fit a fat tree of {k}-port switches "
                f"({k**3 // 4} ports); give a larger k, or none"
            )
        half, rate = k // 2, max(max(p.up_bytes_per_s, p.down_bytes_per_s) for p in ports)
        latency = max(port.latency_ns for port in ports)
        edge = len(ports)
        aggregation, core = edge + k * half, edge + 2 * k * half
        found = [plug(i, port, edge + i // half) for i, port in enumerate(ports)]
        for pod in range(k):
            for a in range(half):
                above = aggregation + pod * half + a
                found += [
                    trunk(edge + pod * half + e, above, rate, rate, latency) for e in range(half)
                ]
                found += [
                    trunk(above, core + a * half + c, rate, rate, latency) for c in range(half)
                ]
        return found


def _smallest(ports: int) -> int:
    return next(k for k in range(2, 1 << 20, 2) if k**3 // 4 >= ports)
