"""`anchored`: recorded work brought to the steps that ran without instruments.

What recording adds to small ops is not fully known op by op. It is taken off once, from the
recording, before any change.
"""

from dataclasses import replace

import numpy as np

from paceline.graph import Graph
from paceline.graph.graph import Int64
from paceline.graph.scaled import scaled, works
from paceline.predict.classes import step_ns
from paceline.replay import replay

LEAST, MOST = 0.6, 1.2
"""Recorded work is scaled by no more than this."""


def anchored(graph: Graph) -> Graph:
    """The typical step with its work scaled so that, unchanged, it takes as long as plain steps."""
    plain = graph.facts.plain_step_ns
    whole = _work_of_a_step(graph)
    if not plain or not whole:
        return graph
    surplus = step_ns(replay(graph)) - plain
    factor = min(MOST, max(LEAST, 1 - surplus / whole))
    facts = replace(graph.facts, plain_step_ns=0)
    return replace(scaled(graph, works(graph), factor), facts=facts)


def _work_of_a_step(graph: Graph) -> int:
    """What a mean rank works in a step on its busiest lane."""
    ops = graph.ops
    work: Int64 = np.where(works(graph), np.maximum(ops.dur_ns, 0), 0)
    by_lane = np.bincount(ops.lane, work, len(graph.lanes))
    busiest = [by_lane[graph.lanes.rank == rank].max(initial=0) for rank in graph.ranks]
    return int(np.mean(busiest)) // max(1, len(np.unique(ops.step)))
