"""`Source`: what a change of buckets looks up in a graph, the same for all buckets."""

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from paceline.graph.copy_back import CopiesBack, copies_back
from paceline.graph.gradients import Gradients, gradients_of, no_exchange, ready_orders, reducing
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.hand_over import HandOver
from paceline.graph.kinds import NONE, DepKind, LaneKind
from paceline.graph.links import Links
from paceline.graph.rank_steps import RankSteps, firsts

_MOST_KEPT = 200_000
"""Ops of a graph whose source is kept: for a larger one it takes more room than it is worth."""


@dataclass(frozen=True, eq=False)
class Source:
    """It holds no graph, so that it can be kept for as long as there is one."""

    links: Links
    old: Int64  # the all-reduces of buckets
    orders: Mapping[int, tuple[int, ...]]  # by rank, parameters as they are ready
    steps: RankSteps
    first: Int64  # by rank's step: the first of the old all-reduces, which stands for all; or NONE
    group: Int64  # by rank's step: of replicas, or NONE
    whose: Int64  # by op: the rank's step whose exchange it is a part of, or NONE
    ready: Int64  # by rank's step and parameter: the op that readies the gradient; or NONE
    size_bytes: Int64  # by parameter
    back: CopiesBack
    launches: Int64  # the host's calls that hand the old all-reduces over
    launched: Int64  # of each, the rank's step
    launcher: Int64  # by op: itself, and of a kernel its launch


_known: WeakKeyDictionary[Graph, Source] = WeakKeyDictionary()


def source_of(graph: Graph) -> Source:
    found = _known.get(graph)
    if found is None:
        found = _looked_up(graph)
        if len(graph) <= _MOST_KEPT:
            _known[graph] = found
    return found


def _looked_up(graph: Graph) -> Source:
    links = Links.of(graph)
    old = reducing(graph, links)
    if not len(old):
        raise no_exchange(
            graph,
            "the recording does not say which collectives reduce gradients, so its buckets cannot "
            "be changed. Record a job under DDP with `paceline record`, and change buckets before "
            "the exchange.",
        )
    found, steps, handed = gradients_of(graph), RankSteps.of(graph), HandOver(graph, links)
    whose = np.where(handed.with_delays(old), steps.of_op, NONE)
    launches, launched = handed.launches_of(whose)
    first = firsts(steps.of_op[old], old, len(steps))
    return Source(
        links=links,
        old=old,
        orders=ready_orders(graph, found),
        steps=steps,
        first=first,
        group=np.where(first == NONE, NONE, graph.ops.group[first]),
        whose=whose,
        ready=_ready(graph, found, steps),
        size_bytes=np.array([each.size_bytes for each in graph.facts.parameters], np.int64),
        back=copies_back(graph, links, whose, steps.step),
        launches=launches,
        launched=launched,
        launcher=launcher_of(graph, links),
    )


def _ready(graph: Graph, gradients: Gradients, steps: RankSteps) -> Int64:
    """The last op where several add to a gradient."""
    found = np.full((len(steps), len(graph.facts.parameters)), NONE, np.int64)
    found[steps.of_op[gradients.op], gradients.parameter] = gradients.op
    return found


def launcher_of(graph: Graph, links: Links) -> Int64:
    """By op: itself, and of a kernel its launch."""
    launch = links.where(links.kind == DepKind.LAUNCH)
    found, own = firsts(launch.op, launch.src, len(graph)), np.arange(len(graph))
    on_stream: Bool = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    return np.where(on_stream & (found != NONE), found, own)
