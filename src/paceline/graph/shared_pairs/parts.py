"""`with_parts`: a job whose ranks hold parts of pairs: their update, their gradients and what they
hold from step to step fall, and the pairs' gradients leave the buckets."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.facts import Parameter, RankMemory
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import OpKind, Phase
from paceline.graph.rebucket.copies import copies_of, exchange_of
from paceline.graph.rebucket.source import source_of
from paceline.graph.remodel import copies_before
from paceline.graph.replicas import Layout
from paceline.graph.scaled import scaled
from paceline.graph.shared_pairs.pairs import LinearPair, cut_parameters
from paceline.graph.splice import Added, spliced


def with_parts(graph: Graph, pairs: Sequence[LinearPair], degree: int) -> Graph:
    """In the recorded buckets, which are for the caller to cut anew; where no gradient is left in
    them, their exchange is gone."""
    _require(graph, degree)
    source, cut = source_of(graph), list(cut_parameters(graph, pairs))
    rest = tuple(p for p in graph.facts.parameters if p not in cut)
    before = sum(p.size_bytes for p in graph.facts.parameters)
    left, gone = sum(p.size_bytes for p in rest), _gone(cut, degree)
    back = source.back.work[graph.ops.kind[source.back.work] == OpKind.COMPUTE]
    update = (graph.ops.kind == OpKind.COMPUTE) & (graph.ops.phase == Phase.UPDATE)
    less = scaled(graph, update, 1 - gone / before)
    less = scaled(less, np.unique(back), left / before)
    less = scaled(less, _copies(graph, cut), 1 / degree)
    held = tuple(_held(each, gone / before, left / before) for each in graph.facts.memory)
    made = replace(less, facts=replace(less.facts, parameters=rest, buckets=(), memory=held))
    if rest:
        return made
    none = np.zeros(0, np.int64)
    return spliced(
        made, exchange_of(source, copies_of(graph, source)), Added(none, none, {}), source.links
    )


def _require(graph: Graph, degree: int) -> None:
    layout = Layout.of(graph)
    if layout.stride != 1 or layout.replicas != graph.world_size:
        raise GraphError("the workers share more than gradients already; record plain replicas")
    if layout.replicas % degree:
        raise GraphError(
            f"{layout.replicas} workers cannot be put together by {degree}; add workers first, as "
            f"in workers(count={degree * -(-layout.replicas // degree)})"
        )


def _gone(cut: Sequence[Parameter], degree: int) -> int:
    """Bytes of weights that a rank no longer holds."""
    return sum(p.size_bytes - p.size_bytes // degree for p in cut)


def _copies(graph: Graph, cut: Sequence[Parameter]) -> Int64:
    """What copies gradients into their buckets: of parts it makes means of their group instead."""
    names = [graph.names.index(p.name) for p in cut if p.name in graph.names]
    ready = np.flatnonzero(np.isin(graph.ops.tensor, names))
    rows = [copies_before(graph, op) for op in ready.tolist()]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *rows]))


def _held(held: RankMemory, gone: float, left: float) -> RankMemory:
    """`gone` and `left` are shares of all gradients: those that went, and those in buckets."""
    gradients = held.gradients * gone
    return replace(
        held,
        weights=round(held.weights - gradients),
        gradients=round(held.gradients - gradients),
        optimizer=round(held.optimizer * (1 - gone)),
        communication=round(held.communication * left),
    )
