"""Workers that share the cores of one machine: what their communication needs of it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.cluster.machine import Machine
from paceline.cluster.tcp import BURST_S
from paceline.cost import GLOO, Calls, Library, Rates, messages_of
from paceline.cost.collectives.volume import sent_share
from paceline.graph import NONE, Basis, Collective, Graph, OpKind
from paceline.graph.graph import Int64
from paceline.graph.membership import TALKS
from paceline.graph.scaled import ppb


@dataclass(frozen=True, eq=False)
class Shared:
    """By op: processor time of communication, and what it waits for its turn."""

    cpu_ns: Int64
    turn_ns: Int64


def library_of(machine: Machine) -> Rates:
    """Gloo between namespaces of one machine."""
    library = replace(
        GLOO,
        call_ns=machine.call_ns,
        message_ns=machine.message_ns,
        burst_s=BURST_S,
        basis=Basis.FITTED,
    )
    return Rates(library=library)


def shared_of(graph: Graph, calls: Calls, library: Library, machine: Machine) -> Shared:
    turn = np.rint(messages_of(graph, calls, library) * machine.turn_ns * ppb(graph))
    talks = graph.ops.kind == OpKind.COLLECTIVE
    cpu = np.rint(sent_bytes(graph) * machine.cpu_ns_per_byte).astype(np.int64)
    return Shared(cpu, np.where(talks, turn, 0).astype(np.int64))


def sent_bytes(graph: Graph) -> NDArray[np.float64]:
    """By op of communication in a group, what its worker sends."""
    ops, found = graph.ops, np.zeros(len(graph))
    sends = TALKS[ops.kind] & (ops.group != NONE) & (ops.kind != OpKind.RECV)
    rows = np.flatnonzero(sends)
    pairs = np.stack([ops.collective[rows].astype(np.int64), ops.group[rows]])
    distinct, which = np.unique(pairs, axis=1, return_inverse=True)
    shares = np.array([_share(Collective(how), len(graph.groups[group].ranks))
                       for how, group in distinct.T.tolist()], np.float64)  # fmt: skip
    found[rows] = ops.size_bytes[rows] * shares[which.reshape(-1)]
    return found


def _share(collective: Collective, members: int) -> float:
    """Gloo runs a reduce-scatter as a whole all-reduce."""
    reduced = collective is Collective.REDUCE_SCATTER
    return sent_share(Collective.ALL_REDUCE if reduced else collective, members)
