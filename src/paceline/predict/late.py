"""`late`: collectives among workers that are more than the cores wait for the last of them.

Workers that have worked for a while do not end all at once, as fair shares of the cores would have
it: the system lays their threads on cores unevenly, and moves them late. A collective behind such
work begins later by what `paceline measure --lab` found (`Machine.together_ns`). What was issued
right behind another collective finds its workers together already. Where the lane of collectives is
still busy by then, nothing is lost.

Wrong where messages between two workers make them wait: nothing is added to those.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from paceline.cluster.machine import Machine
from paceline.graph import NONE, UNPRICED, DepKind, Discipline, Graph, LaneKind, OpKind, Phase
from paceline.graph.graph import Int64
from paceline.graph.links import Links
from paceline.graph.new_calls import PLAIN
from paceline.graph.own_lanes import own_lanes
from paceline.graph.scaled import works
from paceline.graph.splice import Added, spliced

LANE: Final = "last to come"
"""The lane of each rank on which its collectives wait."""

_WAIT: Final = {
    **PLAIN,
    "kind": OpKind.CORE_WAIT,
    "phase": Phase.COMMUNICATION,
    "size_bytes": 0,
    "group": NONE,
    "instance": NONE,
    "collective": 0,
    "layer": NONE,
    "priority": 0,
}


def late(graph: Graph, machine: Machine) -> Graph:
    """The graph with a wait in front of every collective behind work; itself where that was not
    measured."""
    if not machine.together_ns:
        return graph
    links = Links.of(graph)
    calls, behind, later_ns = _behind_work(graph, links, round(machine.together_ns))
    return _waiting(graph, links, calls, behind, later_ns) if len(calls) else graph


def _behind_work(graph: Graph, links: Links, most_ns: int) -> tuple[Int64, Int64, Int64]:
    """Collectives that come behind work of their rank since its last one, the last op that each
    waits for, and how much later it begins: no more than was worked."""
    ops = graph.ops
    calls = np.flatnonzero(ops.kind == OpKind.COLLECTIVE)
    ready = np.full(len(graph), NONE, np.int64)
    np.maximum.at(ready, links.op, links.src)
    calls = calls[ready[calls] != NONE]
    calls = calls[np.lexsort((ready[calls], ops.rank[calls]))]
    worked = _worked_ns(graph, most_ns)[ready[calls]]
    first = np.append(True, np.diff(ops.rank[calls]) != 0)[: len(calls)]
    since = worked - np.where(first, 0, np.append(0, worked[:-1])[: len(calls)])
    later = np.zeros(len(graph), np.int64)
    later[calls] = np.clip(since, 0, most_ns)
    calls = np.flatnonzero(later)
    return calls, ready[calls], later[calls]


def _worked_ns(graph: Graph, unpriced_ns: int) -> Int64:
    """By op: what its rank's threads have worked up to its end; so much for what has no price."""
    ops = graph.ops
    on_thread = graph.lanes.kind[ops.lane] == LaneKind.THREAD
    each_ns = np.where(ops.dur_ns == UNPRICED, unpriced_ns, ops.dur_ns)
    work = np.where(works(graph) & on_thread, each_ns, 0)
    order = np.argsort(ops.rank, kind="stable")
    rank, total = ops.rank[order], np.cumsum(work[order])
    begins = np.flatnonzero(np.append(True, np.diff(rank) != 0)[: len(rank)])
    before = (total - work[order])[begins]
    found = np.empty(len(graph), np.int64)
    found[order] = total - np.repeat(before, np.diff(np.append(begins, len(rank))))
    return found


def _waiting(graph: Graph, links: Links, calls: Int64, behind: Int64, later_ns: Int64) -> Graph:
    """Each of these calls waits so long when all that it waits for has ended. It keeps the op that
    launches it: who hands over what, and when, stays as it was."""
    lanes, lane = own_lanes(graph, calls, LANE, Discipline.RECORDED)
    wait = np.full(len(graph), NONE, np.int64)
    wait[calls] = len(graph) + np.arange(len(calls))
    waits = wait[links.op] != NONE
    moved = replace(links, op=np.where(waits, wait[links.op], links.op))
    launched = links.where(waits & (links.kind == DepKind.LAUNCH))
    made = Links.all_of(calls, wait[calls], DepKind.WAIT)
    nothing = np.zeros(len(graph), np.bool_)
    columns = {**_WAIT, "lane": lane, "dur_ns": later_ns}
    added = Added(calls, behind, columns)
    found = Links.together([moved, launched, made])
    return spliced(replace(graph, lanes=lanes), nothing, added, found)
