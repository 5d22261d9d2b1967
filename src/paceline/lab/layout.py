"""`Layout`: what the lab stands up. Hosts and switches, the wires between them, TCP's settings.

A wire is one veth pair whose ends belong to two nodes; each end has its own rate, so that up and
down may differ. Rates are bits a second, as `tc` has them. Nothing here touches the system.
"""

import re
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property

from paceline.cluster import Switch
from paceline.cluster.tcp import DEFAULT_QUEUE_BYTES
from paceline.lab.errors import LabError

PREFIX = "paceline"
"""What the lab makes is called `paceline.<lab>.<node>`; only such names are torn down."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
LOWEST_BITS_PER_S = 8_000  # tc's resolution is a byte a second; below this a packet takes seconds


@dataclass(frozen=True)
class Node:
    """A host that runs workers, or (with none) a switch. Each is one network namespace."""

    name: str
    workers: int = 0
    cpus: float = 0.0  # cores that each worker may use; 0: all there are

    def __post_init__(self) -> None:
        require_name("node", self.name)
        if self.workers < 0 or self.cpus < 0:
            raise LabError(f"node {self.name} has {self.workers} workers and {self.cpus} cores")


@dataclass(frozen=True)
class End:
    """What one end of a wire puts on it."""

    node: int  # row of `Layout.nodes`
    bits_per_s: int
    queue_bytes: int = DEFAULT_QUEUE_BYTES
    loss: float = 0.0  # share of the packets sent from this end that vanish at random

    def __post_init__(self) -> None:
        if self.bits_per_s < LOWEST_BITS_PER_S:
            raise LabError(
                f"a link rate of {self.bits_per_s} bit/s cannot be shaped; "
                f"give at least {LOWEST_BITS_PER_S} bit/s"
            )
        if not 0 <= self.loss < 1:
            raise LabError(f"a loss of {self.loss} was given; give a share from 0 to below 1")


@dataclass(frozen=True)
class Wire:
    """A cable between two nodes."""

    a: End
    b: End


@dataclass(frozen=True)
class Stack:
    """TCP inside the lab. The default of a fresh namespace may be BBR, which shows tails of 300 ms
    on shaped links, and segments of 64 KB, which no queue can drop singly: both are pinned."""

    congestion: str = "reno"
    gso_max_segs: int = 4
    rto_min_ms: int = 20
    loss_burst_ms: int = 0  # how long a lossy link then loses all; 0: each packet by itself


@dataclass(frozen=True)
class Layout:
    """A whole lab. `limits` says in words what of the cluster the lab does not reproduce."""

    name: str
    nodes: tuple[Node, ...]
    wires: tuple[Wire, ...]
    stack: Stack = field(default_factory=Stack)
    limits: tuple[str, ...] = ()
    switch: Switch | None = None  # what nodes without workers do; None: first come, first served

    def __post_init__(self) -> None:
        require_name("lab", self.name)
        names = [node.name for node in self.nodes]
        if len(set(names)) < len(names):
            raise LabError(f"nodes share a name: {', '.join(sorted(names))}; names must differ")
        if len(names) > 4000:
            raise LabError(f"{len(names)} nodes are too many for one machine; 4000 at most")
        self._require_reach()

    def namespace(self, node: int) -> str:
        return f"{PREFIX}.{self.name}.{self.nodes[node].name}"

    @staticmethod
    def address(node: int) -> str:
        """The node's one address. Labs share addresses: they never see each other."""
        return f"10.77.{(node + 1) // 256}.{(node + 1) % 256}"

    @property
    def workers(self) -> int:
        return sum(node.workers for node in self.nodes)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The node of each worker; workers fill hosts in order."""
        return tuple(n for n, node in enumerate(self.nodes) for _ in range(node.workers))

    @cached_property
    def ports(self) -> tuple[tuple[tuple[int, End, End], ...], ...]:
        """Of each node: (wire, own end, far end). Position k is the interface `eth<k>`."""
        found: list[list[tuple[int, End, End]]] = [[] for _ in self.nodes]
        for wire, cable in enumerate(self.wires):
            found[cable.a.node].append((wire, cable.a, cable.b))
            found[cable.b.node].append((wire, cable.b, cable.a))
        return tuple(tuple(ports) for ports in found)

    @cached_property
    def hops(self) -> tuple[tuple[int, ...], ...]:
        """`hops[target][node]`: wires from a node to the target; -1 where there is no way."""
        return tuple(self._distances(target) for target in range(len(self.nodes)))

    def _distances(self, target: int) -> tuple[int, ...]:
        hops = [-1] * len(self.nodes)
        hops[target] = 0
        queue = deque([target])
        while queue:
            here = queue.popleft()
            for _, _, far in self.ports[here]:
                if hops[far.node] < 0:
                    hops[far.node] = hops[here] + 1
                    queue.append(far.node)
        return tuple(hops)

    def _require_reach(self) -> None:
        hosts = [n for n, node in enumerate(self.nodes) if node.workers]
        if not hosts:
            raise LabError(f"lab {self.name} has no workers; give at least one host")
        hops = self.hops[hosts[0]]
        lost = [self.nodes[n].name for n in hosts if hops[n] < 0]
        if lost:
            raise LabError(
                f"{', '.join(lost)} cannot be reached from {self.nodes[hosts[0]].name}: "
                "add links so that every pair of hosts has a way"
            )


def require_name(what: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise LabError(
            f"{what} name {name!r} is not allowed; "
            "use up to 32 letters, digits, dashes and underscores"
        )
