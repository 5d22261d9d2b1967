"""Rail-optimised: NIC i of every host in a group plugs into rail switch i; spines join the rails.

Traffic between devices of equal number stays on one switch; the rest crosses a spine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from paceline.cluster.quantities import ClusterError
from paceline.cluster.topologies.topology import Cable, Port, Topology, plug, trunk


@dataclass(frozen=True)
class Rail(Topology):
    kind: ClassVar[str] = "rail"
    hosts_per_group: int = 0  # 0: one group of all hosts
    spines: int = 1
    oversubscription: float = 1.0

    def __post_init__(self) -> None:
        if self.hosts_per_group < 0 or self.spines < 1 or self.oversubscription <= 0:
            raise ClusterError(
                f"rail with hosts_per_group={self.hosts_per_group}, spines={self.spines}, "
                f"oversubscription={self.oversubscription}; spines and oversubscription must be "
                "above zero"
            )

    def cables(self, ports: Sequence[Port]) -> list[Cable]:
        size = self.hosts_per_group or max(port.host for port in ports) + 1
        rails = sorted({(port.host // size, port.nic) for port in ports})
        switch = {rail: len(ports) + i for i, rail in enumerate(rails)}
        first_spine = len(ports) + len(rails)
        homes = [switch[port.host // size, port.nic] for port in ports]
        found = [plug(i, port, home) for i, (port, home) in enumerate(zip(ports, homes))]
        for rail in switch.values() if len(rails) > 1 else ():
            members = [port for port, home in zip(ports, homes) if home == rail]
            share = self.oversubscription * self.spines
            up = sum(port.up_bytes_per_s for port in members) / share
            down = sum(port.down_bytes_per_s for port in members) / share
            latency = max(port.latency_ns for port in members)
            found += [trunk(rail, first_spine + s, up, down, latency) for s in range(self.spines)]
        return found
