"""`ShapedMessages`: the messages of a graph and the shaped links that they cross, as columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cluster.network import Network
from paceline.cost.opposite import opposite
from paceline.errors import ReplayError
from paceline.graph import NONE, Graph, OpKind
from paceline.graph.graph import Bool, Int32, Int64
from paceline.replay.hosts import LONGEST_NS, MOST_LOAD


@dataclass(frozen=True)
class Shaping:
    """How links are shaped, and what a message costs beside its bytes."""

    cpu_ns_per_byte: float  # of all cores, for a byte sent, forwarded and received
    burst_bytes: tuple[float, ...]  # of payload, by link of the cluster's `Network`
    message_ns: int = 0  # from asking for a message to its first byte
    late_ns: int = 0  # more where all cores work: who wakes for it waits for its turn
    window_bytes: float = 0.0  # of a message that its sender puts into the link's queue at once
    one_way: bool = False  # `opposite` messages of a group follow one another

    def __post_init__(self) -> None:
        least = min(self.message_ns, self.late_ns, self.window_bytes)
        if not (self.cpu_ns_per_byte > 0 and least >= 0):
            raise ReplayError(
                f"messages take {self.cpu_ns_per_byte} ns a byte, {self.message_ns} and "
                f"{self.late_ns} ns each, and {self.window_bytes} bytes of a queue; ns a byte must "
                "be above zero, the others zero or more"
            )

    @property
    def most(self) -> float:
        """Bytes a ns of a message for which a core works at either end, at half the cost."""
        return 2 / self.cpu_ns_per_byte


@dataclass(frozen=True, eq=False)
class ShapedMessages:
    """One row a message, in the order of their first ops. The links of a message are a row in CSR
    form, its sender's link first."""

    of_op: Int32  # one an op; NONE where it is no message
    size_bytes: NDArray[np.float64]
    source: Int32  # rank
    target: Int32
    other: Int32  # the one the other way, which it follows or goes before; NONE of most
    link_ptr: Int64
    link: Int32
    capacity: NDArray[np.float64]  # bytes a ns, one a link
    shaping: Shaping

    @classmethod
    def of(cls, graph: Graph, network: Network, shaping: Shaping) -> "ShapedMessages":
        if len(shaping.burst_bytes) != len(network.links):
            raise ReplayError(
                f"{len(shaping.burst_bytes)} bursts were given for {len(network.links)} links; "
                "give one for each link of Network(cluster)"
            )
        of_op, first = _numbered(graph)
        source, target = (_rank_of(graph, of_op, len(first), kind) for kind in _ENDS)
        paths = [network.path(a, b) for a, b in zip(source.tolist(), target.tolist())]
        made = cls(
            of_op=of_op,
            size_bytes=graph.ops.size_bytes[first].astype(np.float64),
            source=source,
            target=target,
            other=_others(graph, of_op, first, shaping),
            link_ptr=np.cumsum([0, *map(len, paths)], dtype=np.int64),
            link=np.array([link for path in paths for link in path], np.int32),
            capacity=network.bytes_per_s / 1e9,
            shaping=shaping,
        )
        made.check(np.inf)
        return made

    @property
    def carried(self) -> Bool:
        """Which ops are messages."""
        found: Bool = self.of_op != NONE
        return found

    def check(self, cores: float) -> None:
        """Refuse messages that could take longer than a timeline can tell, on so few cores."""
        slowest = min(self.capacity[self.link].min(initial=np.inf), self.shaping.most)
        slowest = min(slowest, cores * MOST_LOAD / self.shaping.cpu_ns_per_byte)
        each_ns = self.shaping.message_ns + self.shaping.late_ns
        longest = float(self.size_bytes.sum()) / slowest + each_ns * len(self.size_bytes)
        if not longest < LONGEST_NS:
            raise ReplayError(
                f"messages of {self.size_bytes.sum():.3g} bytes at {slowest * 1e9:.3g} bytes a "
                "second take 2^62 ns or more. Check sizes, links and cores"
            )


_ENDS = (OpKind.SEND, OpKind.RECV)


def _numbered(graph: Graph) -> tuple[Int32, Int64]:
    """The message of each op, or NONE; and the first op of each message, ascending."""
    talks = np.flatnonzero(np.isin(graph.ops.kind, _ENDS))
    _, first, inverse = np.unique(graph.ops.instance[talks], return_index=True, return_inverse=True)
    of_op = np.full(len(graph), NONE, np.int32)
    of_op[talks] = np.argsort(np.argsort(first))[inverse.reshape(-1)]
    return of_op, talks[np.sort(first)]


def _others(graph: Graph, of_op: Int32, first: Int64, shaping: Shaping) -> Int32:
    """By message that of the same group the other way, where both share one connection."""
    if not shaping.one_way:
        return np.full(len(first), NONE, np.int32)
    op = opposite(graph)[first]
    known = (op != NONE) & (graph.ops.group[first] != NONE)
    return np.where(known, of_op[op], NONE).astype(np.int32)


def _rank_of(graph: Graph, of_op: Int32, messages: int, kind: OpKind) -> Int32:
    """The rank at one end of each message."""
    ranks = np.zeros(messages, np.int32)
    ends = np.flatnonzero(graph.ops.kind == kind)
    ranks[of_op[ends]] = graph.ops.rank[ends]
    return ranks
