"""`Rates`: what pricing knows beyond the cluster's datasheets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from paceline.cluster import Cluster, Network
from paceline.cost.collectives import GLOO, NCCL, Call, Library
from paceline.cost.compute import TYPICAL, Efficiency
from paceline.cost.curve import Curve
from paceline.cost.forecast import Constants
from paceline.graph import Collective, DeviceKind

Carrier = Callable[[Call, Network], float]
"""How many nanoseconds a call between hosts takes that the library does not carry."""


class Fidelity(Enum):
    """How the time of a collective is found."""

    CLOSED = "closed"  # each round lasts as long as its slowest path and fullest link
    FLOWS = "flows"  # every message is a flow that shares links with the others


@dataclass(frozen=True)
class Rates:
    """Efficiency by a device's name, the communication library with its own time, measured tables.

    A kernel named in `kernels` takes its time from that table, over its operations (over its bytes
    where it has none); a collective in `calls`, by kind and members, over its bytes. Without an
    entry a device has the typical efficiency of its kind, and the library is NCCL among
    GPUs and gloo among CPUs. Between hosts what has a carrier is its, and not the library's.
    Forecasts go by `constants`, the shipped ones where there are none.
    """

    efficiency: Mapping[str, Efficiency] = field(default_factory=dict)
    library: Library | None = None
    fidelity: Fidelity = Fidelity.CLOSED
    kernels: Mapping[str, Curve] = field(default_factory=dict)
    calls: Mapping[tuple[Collective, int], Curve] = field(default_factory=dict)
    carriers: Mapping[Collective, Carrier] = field(default_factory=dict)
    constants: Constants | None = None

    def of(self, name: str, kind: DeviceKind) -> Efficiency:
        return self.efficiency.get(name, TYPICAL[kind])

    def library_of(self, cluster: Cluster) -> Library:
        kinds = {host.device.kind for host in cluster.hosts}
        return self.library or (NCCL if kinds == {DeviceKind.GPU} else GLOO)
