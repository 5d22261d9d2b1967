"""Workers that share the cores of one machine: what their communication needs of it."""

from dataclasses import dataclass

import numpy as np

from paceline.cluster.machine import Machine
from paceline.cost import Calls, Library, Rates, messages_of
from paceline.cost.collectives import gloo_on
from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective, Graph, OpKind
from paceline.graph.graph import Bool, Int64
from paceline.graph.scaled import ppb
from paceline.measure.handling import UNHANDLED, Handling

WAKES = 2
"""Of threads, for an announcement: the one that makes it and the one that hears it."""


@dataclass(frozen=True, eq=False)
class Shared:
    """By op: processor time of communication, and what it waits for its turn."""

    cpu_ns: Int64
    turn_ns: Int64


def library_of(machine: Machine) -> Rates:
    """Gloo between namespaces of one machine."""
    return Rates(library=gloo_on(machine))


def shared_of(
    graph: Graph,
    calls: Calls,
    library: Library,
    machine: Machine,
    handling: Handling = UNHANDLED,
) -> Shared:
    """Messages of a library's calls wait for their turn; so do the threads in Python that announce
    exchanges to each other, which wake at either end and take the processor time of such calls."""
    announces = _announces(graph)
    turns = messages_of(graph, calls, library) + WAKES * announces
    waits = (graph.ops.kind == OpKind.COLLECTIVE) | announces
    wait = np.where(waits, np.rint(turns * machine.turn_ns * ppb(graph)), 0).astype(np.int64)
    return Shared(_cpu_ns(graph, calls, machine) + _handled_ns(graph, announces, handling), wait)


def _handled_ns(graph: Graph, announces: Bool, handling: Handling) -> Int64:
    """Of all members, with the exchange that each then runs."""
    found, rows = np.zeros(len(graph), np.int64), np.flatnonzero(announces)
    members = np.array([len(graph.groups[group].ranks) for group in graph.ops.group[rows].tolist()])
    each = {n: handling.told_ns(n) + handling.summed_ns(n, 0) for n in set(members.tolist())}
    found[rows] = [round(n * each[n]) for n in members.tolist()]
    return found


def _announces(graph: Graph) -> Bool:
    ops = graph.ops
    found: Bool = (ops.kind == OpKind.TRANSFER) & (ops.collective == Collective.BROADCAST)
    return found


def _cpu_ns(graph: Graph, calls: Calls, machine: Machine) -> Int64:
    """Processor time of each communication op, by the bytes that its worker sends."""
    shares = np.array([_share(call.collective, call.members) for call in calls.each])
    sent = np.zeros(len(graph))
    sent[calls.rows] = graph.ops.size_bytes[calls.rows] * shares[calls.which]
    sent[graph.ops.kind == OpKind.RECV] = 0
    return np.rint(sent * machine.cpu_ns_per_byte).astype(np.int64)


def _share(collective: Collective, members: int) -> float:
    """Gloo runs a reduce-scatter as a whole all-reduce."""
    reduced = collective is Collective.REDUCE_SCATTER
    return sent_share(Collective.ALL_REDUCE if reduced else collective, members)
