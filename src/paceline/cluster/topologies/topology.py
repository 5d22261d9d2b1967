"""The contract of a topology: given the hosts' ports, say which cables lie where.

Node numbers: port i is node i; switches follow. Rates are bytes a second, `ab` from a to b.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Port:
    """One NIC of one host, with what its cable carries."""

    host: int
    nic: int
    up_bytes_per_s: float
    down_bytes_per_s: float
    latency_ns: int


@dataclass(frozen=True)
class Cable:
    """A two-way cable between two nodes."""

    a: int
    b: int
    ab_bytes_per_s: float
    ba_bytes_per_s: float
    latency_ns: int


@dataclass(frozen=True)
class Topology(ABC):
    """One way to cable hosts. Fields are its settings; `kind` is its name in YAML."""

    kind: ClassVar[str]

    @abstractmethod
    def cables(self, ports: Sequence[Port]) -> list[Cable]:
        """All cables between ports and switches."""


def plug(port_node: int, port: Port, switch: int) -> Cable:
    """A port's own cable into a switch."""
    return Cable(port_node, switch, port.up_bytes_per_s, port.down_bytes_per_s, port.latency_ns)


def between(a_node: int, a: Port, b_node: int, b: Port) -> Cable:
    """A cable between two hosts without a switch: the slower end sets each direction."""
    return Cable(
        a_node,
        b_node,
        min(a.up_bytes_per_s, b.down_bytes_per_s),
        min(b.up_bytes_per_s, a.down_bytes_per_s),
        max(a.latency_ns, b.latency_ns),
    )


def trunk(a: int, b: int, up: float, down: float, latency_ns: int) -> Cable:
    """A cable between two switches; `up` from a to b."""
    return Cable(a, b, up, down, latency_ns)


def chunks(count: int, size: int) -> list[range]:
    """0..count cut into runs of `size`, the last one shorter."""
    return [range(i, min(i + size, count)) for i in range(0, count, size)]
