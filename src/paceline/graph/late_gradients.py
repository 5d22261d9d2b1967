"""`late`: weight gradients made behind all else of the backward pass, in an order of one's own.

Ops that make them move behind the last gradient of their lane and step, with the host's calls that
launch them, and with the memory that they take and give back. Buckets are for the caller to cut
anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.gradients import gradients_of
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, DepKind
from paceline.graph.late_memory import held_longer
from paceline.graph.links import Links
from paceline.graph.rank_steps import RankSteps, firsts, lasts
from paceline.graph.reordered import reordered
from paceline.graph.weight_products import WeightGradients, within


def late(graph: Graph, made: WeightGradients, order: Sequence[int]) -> Graph:
    """The graph in which these parameters' gradients are made last, one behind the other, and what
    they are made of is held until then."""
    held = made.of(order)
    memory = held_longer(graph, held, _anchors(graph)[held.last])
    return made_last(replace(graph, memory=memory), held, order)


def made_last(graph: Graph, made: WeightGradients, order: Sequence[int]) -> Graph:
    """The same where each stretch holds all that it needs. `order` has every parameter that is
    made."""
    places = np.full(len(graph.facts.parameters), NONE, np.int64)
    places[list(order)] = np.arange(len(order))
    spans = _Spans(made.first, made.last, _anchors(graph)[made.last])
    turn, behind = _moved(graph, spans, places[made.parameter])
    new = np.lexsort((np.arange(len(graph)), turn, behind))
    place = np.empty(len(new), np.int64)
    place[new] = np.arange(len(new))
    return reordered(_out_of_turn(graph, place), new)


def _moved(graph: Graph, works: "_Spans", turns: Int64) -> tuple[Int64, Int64]:
    """By op: its turn among those that move, or NONE; and the op behind which it comes to stand,
    itself where it stays."""
    turn, behind = np.full(len(graph), NONE, np.int64), np.arange(len(graph))
    for spans in (works, _launching(graph, works)):
        of, rows = spans.rows(graph)
        if (turn[rows] != NONE).any() or len(np.unique(rows)) < len(rows):
            raise GraphError(
                "weight gradients of several layers are made at the same time in this recording, "
                "so none can be moved by itself; leave what makes them later out"
            )
        turn[rows], behind[rows] = turns[of], spans.behind[of]
    return turn, behind


@dataclass(frozen=True, eq=False)
class _Spans:
    """What moves together: on one lane from the first op to the last, to stand behind another."""

    first: Int64
    last: Int64
    behind: Int64

    def rows(self, graph: Graph) -> tuple[Int64, Int64]:
        """Of each op that moves its span, and the op itself."""
        return within(graph, self.first, self.last)


def _anchors(graph: Graph) -> Int64:
    """By op: the last one of its lane and step that readies a gradient."""
    ready, ops = gradients_of(graph).op, graph.ops
    steps = RankSteps.of(graph)
    keys = steps.of_op * np.int64(len(graph.lanes)) + ops.lane
    found: Int64 = lasts(keys[ready], ready, len(steps) * len(graph.lanes))[keys]
    return found


def _launching(graph: Graph, works: _Spans) -> _Spans:
    """The host's calls that launch what moves; on threads there are none."""
    launch = Links.of(graph)
    launch = launch.where(launch.kind == DepKind.LAUNCH)
    by_op = firsts(launch.op, launch.src, len(graph))
    of, rows = works.rows(graph)
    of, calls = of[by_op[rows] != NONE], by_op[rows[by_op[rows] != NONE]]
    first, last = np.full((2, len(works.first)), NONE, np.int64)
    last[of[np.argsort(calls, kind="stable")]] = np.sort(calls)
    down = np.argsort(-calls, kind="stable")
    first[of[down]] = calls[down]
    return _Spans(first, last, np.maximum(by_op[works.behind], last))


def _out_of_turn(graph: Graph, place: Int64) -> Graph:
    """Without what said in which order a thread did what now stands the other way round; refused
    where an op would come to stand before what it waits for on its own lane."""
    links, lane = Links.of(graph), graph.ops.lane
    turned = (lane[links.op] == lane[links.src]) & (place[links.op] < place[links.src])
    if not turned.any():
        return graph
    read = turned & (links.kind != DepKind.ORDER)
    if read.any():
        raise GraphError(
            f"{graph[int(links.op[np.argmax(read)])]} waits for a weight gradient, which so "
            "cannot be made later; leave what makes it later out"
        )
    return replace(graph, deps=links.where(~turned).columns(len(graph)))
