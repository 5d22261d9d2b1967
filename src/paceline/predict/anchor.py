"""Recorded work brought to the steps that ran without instruments.

What recording adds to small ops is not fully known op by op. It is taken off once, from the
recording, before any change. Work is either what the training threads ran in plain steps, which no
wait for a core, a network or another rank is part of; or, where that was not counted, and where
the step is to stay among the same machines, such that the unchanged step takes as long as a plain
one. Instruments lengthen what a device's host does and not its kernels, so there only the host's
work is brought to the plain step.
"""

from dataclasses import replace

import numpy as np

from paceline.graph import Basis, Graph, LaneKind
from paceline.graph.graph import Bool, Int64
from paceline.graph.rank_steps import numbered
from paceline.graph.scaled import scaled, works
from paceline.predict.classes import step_ns
from paceline.replay import replay

LEAST, MOST = 0.6, 1.2
"""Recorded work is scaled by no more than this."""
LEAST_OF_HOST = 0.35
"""The same of a device's host: recorded steps of a small decoder on an H100 took it 2.3 times as
long as plain ones."""
ROUNDS = 4


def anchored(graph: Graph, *, elsewhere: bool) -> Graph:
    """The typical step with its work scaled to plain steps; `elsewhere`: to be carried to other
    machines or another network."""
    whole = _work_of_a_step(graph)
    if not whole or not graph.facts.plain_step_ns:
        return graph
    counted = bool(graph.facts.plain_run_ns) and not _has_streams(graph)
    facts = replace(graph.facts, plain_step_ns=0, plain_run_ns=0)
    if elsewhere and counted:
        return replace(_scaled(graph, graph.facts.plain_run_ns / whole), facts=facts)
    met = _met(graph, whole, rounds=1 if elsewhere else ROUNDS)
    if elsewhere and not _has_streams(graph):
        met = scaled(met, works(met), 1.0, Basis.WALL)
    return replace(met, facts=facts)


def _met(graph: Graph, whole: int, rounds: int) -> Graph:
    """The graph whose step takes as long as a plain one: what is too much of the step is taken off
    the work, once more where communication then hid less or more of it."""
    factor, made = 1.0, graph
    for _ in range(rounds):
        surplus = step_ns(replay(made)) - graph.facts.plain_step_ns
        factor = _bounded(graph, factor - surplus / whole)
        made = _scaled(graph, factor)
    return made


def _scaled(graph: Graph, factor: float) -> Graph:
    return scaled(graph, _lengthened(graph), _bounded(graph, factor))


def _bounded(graph: Graph, factor: float) -> float:
    return min(MOST, max(LEAST_OF_HOST if _has_streams(graph) else LEAST, factor))


def _lengthened(graph: Graph) -> Bool:
    """Work that recording makes longer."""
    on_stream = graph.lanes.kind == LaneKind.STREAM
    found: Bool = works(graph) & ~on_stream[graph.ops.lane]
    return found


def _has_streams(graph: Graph) -> bool:
    return bool((graph.lanes.kind == LaneKind.STREAM).any())


def _work_of_a_step(graph: Graph) -> int:
    """What a mean rank works in a step on its busiest lane."""
    ops = graph.ops
    work: Int64 = np.where(_lengthened(graph), np.maximum(ops.dur_ns, 0), 0)
    by_lane = np.bincount(ops.lane, work, len(graph.lanes))
    busiest = [by_lane[graph.lanes.rank == rank].max(initial=0) for rank in graph.ranks]
    return int(np.mean(busiest)) // max(1, len(numbered(ops.step)[0]))
