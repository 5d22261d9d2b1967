"""Workers that share the cores of one machine: what their communication needs of it."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.cost import Calls, Library, Rates, messages_of
from paceline.cost.collectives import Call, gloo_on
from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective, Graph, OpKind
from paceline.graph.graph import Bool, Int64
from paceline.graph.scaled import ppb
from paceline.measure.handling import UNHANDLED, Handling

WAKES = 2
"""Of threads, for an announcement: the one that makes it and the one that hears it."""


@dataclass(frozen=True, eq=False)
class Shared:
    """By op: processor time of communication, what it waits for its turn, and what it takes more
    while work takes all cores."""

    cpu_ns: Int64
    turn_ns: Int64
    beside_ns: Int64


@dataclass(frozen=True)
class On:
    """Where workers run: one machine, and the links between them."""

    machine: Machine
    cluster: Cluster

    def slowest_bytes_per_s(self, call: Call) -> float:
        """Of the links of a call's members."""
        links = [self.cluster.link_of(host) for host in set(call.hosts)]
        return min(min(x.free_up_bytes_per_s, x.free_down_bytes_per_s) for x in links)


def library_of(machine: Machine) -> Rates:
    """Gloo between namespaces of one machine."""
    return Rates(library=gloo_on(machine))


def shared_of(
    graph: Graph,
    calls: Calls,
    library: Library,
    on: On,
    handling: Handling = UNHANDLED,
    carried: Collection[Collective] = (),
) -> Shared:
    """Messages of a library's calls wait for their turn; so do the threads in Python that announce
    exchanges to each other, which wake at either end and take the processor time of such calls.
    What is `carried` travels over our transport of datagrams."""
    announces = _announces(graph)
    turns = messages_of(graph, calls, library) + WAKES * announces
    waits = (graph.ops.kind == OpKind.COLLECTIVE) | announces
    wait = np.where(waits, np.rint(turns * on.machine.turn_ns * ppb(graph)), 0).astype(np.int64)
    sent = _sent_bytes(graph, calls)
    cpu = np.rint(sent * _ns_per_byte(graph, on.machine, carried)).astype(np.int64)
    handled = _handled_ns(graph, announces, handling)
    return Shared(cpu + handled, wait, _beside_ns(graph, calls, on, sent))


def _ns_per_byte(
    graph: Graph, machine: Machine, carried: Collection[Collective]
) -> NDArray[np.float64]:
    datagrams = np.isin(graph.ops.collective, list(carried))
    each = machine.datagram_ns_per_byte or machine.cpu_ns_per_byte
    return np.where(datagrams, each, machine.cpu_ns_per_byte)


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


def _sent_bytes(graph: Graph, calls: Calls) -> NDArray[np.float64]:
    """What its worker sends in each communication op."""
    shares = np.array([_share(call.collective, call.members) for call in calls.each])
    sent = np.zeros(len(graph))
    sent[calls.rows] = graph.ops.size_bytes[calls.rows] * shares[calls.which]
    sent[graph.ops.kind == OpKind.RECV] = 0
    return sent


def _beside_ns(graph: Graph, calls: Calls, on: On, sent: NDArray[np.float64]) -> Int64:
    """Of a collective's call, and by the bytes that its worker sends over the call's links."""
    rates = [on.slowest_bytes_per_s(call) for call in calls.each]
    a_byte = np.array([on.machine.beside_ns_per_byte(rate) for rate in rates])
    collective = (graph.ops.kind == OpKind.COLLECTIVE) & (sent > 0)
    found = on.machine.call_beside_ns * collective
    found[calls.rows] += sent[calls.rows] * a_byte[calls.which]
    whole: Int64 = np.rint(found).astype(np.int64)
    return whole


def _share(collective: Collective, members: int) -> float:
    """Gloo runs a reduce-scatter as a whole all-reduce."""
    reduced = collective is Collective.REDUCE_SCATTER
    return sent_share(Collective.ALL_REDUCE if reduced else collective, members)
