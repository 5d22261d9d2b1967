"""Which algorithm a library would take: a small table by collective, size and members.

`NCCL` stands for libraries on GPUs, `GLOO` for torch's on CPUs. An override by name wins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from paceline.cost.collectives.algorithm import Algorithm, Call
from paceline.cost.collectives.all_to_all import AllToAll
from paceline.cost.collectives.chain import Chain
from paceline.cost.collectives.double_tree import DoubleTree
from paceline.cost.collectives.gloo import Gloo
from paceline.cost.collectives.halving_doubling import HalvingDoubling
from paceline.cost.collectives.hierarchical import Hierarchical
from paceline.cost.collectives.multi_ring import MultiRing
from paceline.cost.collectives.parameter_server import ParameterServer
from paceline.cost.collectives.point_to_point import PointToPoint
from paceline.cost.collectives.ring import Ring
from paceline.cost.curve import Curve
from paceline.cost.errors import CostError
from paceline.graph.kinds import Basis, Collective

ALGORITHMS: dict[str, Algorithm] = {
    made.name: made
    for made in (
        Ring(),
        MultiRing(),
        DoubleTree(),
        HalvingDoubling(),
        Hierarchical(),
        AllToAll(),
        Chain(),
        ParameterServer(),
        PointToPoint(),
        Gloo(),
    )
}


@dataclass(frozen=True)
class Library:
    """What a communication library adds to the network: its algorithms, and its own time.

    `message_ns` passes before each message, and where an algorithm stalls, a round of messages
    takes `stall_ns` at least; `reduce_bytes_per_s` is how fast a member adds what it receives (0:
    hidden), or `reduce` a table of its times; `call_ns` is spent once a call.
    """

    name: str
    algorithms: Mapping[Collective, str] = field(default_factory=dict)
    call_ns: float = 0.0
    message_ns: float = 0.0
    stall_ns: float = 0.0
    reduce_bytes_per_s: float = 0.0
    reduce: Curve | None = None
    tree_below_bytes: int = 0  # all-reduce across hosts below this goes by tree
    one_way: bool = False  # messages both ways between two ranks follow one another (`opposite`)
    threads: int = 1  # that carry collectives, each one at a time
    burst_s: float = 0.0  # of its rate, that a link passes at once after a rest
    basis: Basis = Basis.DATASHEET
    source: str = ""  # of its own times

    def __hash__(self) -> int:
        times = (self.call_ns, self.message_ns, self.stall_ns, self.reduce_bytes_per_s)
        return hash((self.name, times))

    def reduce_ns(self, size_bytes: float) -> float:
        """How long a member adds so many bytes to its own."""
        if self.reduce is not None:
            return float(self.reduce.at(np.array([size_bytes]))[0])
        return size_bytes / self.reduce_bytes_per_s * 1e9 if self.reduce_bytes_per_s else 0.0

    def using(self, **algorithms: str) -> "Library":
        """The same with other algorithms: `library.using(all_reduce="ring")`."""
        chosen = dict(self.algorithms) | {Collective[k.upper()]: v for k, v in algorithms.items()}
        return replace(self, algorithms=chosen)


_GLOO_ALL = dict.fromkeys(Gloo.serves, "gloo")
_SHARED = {
    Collective.POINT_TO_POINT: "point-to-point",
    Collective.PUSH: "parameter-server",
    Collective.PULL: "parameter-server",
}
_RINGS = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER)

# The times of both are estimates of their order, from no measurement of ours: gloo's of waking a
# thread for each message over a socket, NCCL's of a kernel's launch and a flag in memory. A
# calibration replaces gloo's; `library.basis` says which of the two a price rests on.
ESTIMATE = "an estimate of its order"
GLOO = Library(
    "gloo",
    _GLOO_ALL | _SHARED,
    call_ns=40_000,
    message_ns=15_000,
    source=ESTIMATE,
    one_way=True,
    threads=2,
)
NCCL = Library(
    "nccl",
    dict.fromkeys(_RINGS, "multi-ring")
    | {Collective.ALL_TO_ALL: "all-to-all", Collective.BROADCAST: "chain"}
    | {Collective.REDUCE: "chain", Collective.GATHER: "gloo", Collective.SCATTER: "gloo"}
    | {Collective.BARRIER: "gloo"}
    | _SHARED,
    call_ns=10_000,
    message_ns=1_000,
    source=ESTIMATE,
    tree_below_bytes=256 * 1024,
)


def choose(library: Library, call: Call) -> Algorithm:
    """The algorithm the library takes for this call."""
    name = library.algorithms.get(call.collective)
    if name is None:
        raise CostError(
            f"{library.name} has no algorithm for {call.collective.name}; it has "
            f"{', '.join(c.name for c in library.algorithms)}"
        )
    if _small_and_wide(library, call):
        name = "double-tree"
    if name not in ALGORITHMS:
        raise CostError(f"no algorithm is called {name!r}; known: {', '.join(ALGORITHMS)}")
    found = ALGORITHMS[name]
    if call.collective not in found.serves:
        served = ", ".join(sorted(c.name for c in found.serves))
        raise CostError(f"{name} does not do {call.collective.name}; it does {served}")
    return found


def _small_and_wide(library: Library, call: Call) -> bool:
    small = call.size_bytes < library.tree_below_bytes
    return call.collective is Collective.ALL_REDUCE and small and len(set(call.hosts)) > 1
