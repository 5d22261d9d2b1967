"""`with_factors`: weight gradients that every rank makes of all ranks' rows.

A linear layer's weight gradient is a product of its input and of the gradient of its result, so a
rank hands those over once the second is known, and goes on. Behind all else of the backward pass it
waits for the other ranks' and makes the product of all rows, as many times as long as there are
ranks. The layer's parameters leave the job's buckets, and where nothing is left in them, so does
the exchange; else buckets are for the caller to cut anew.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from paceline.graph.buffers import with_buffers
from paceline.graph.facts import Parameter
from paceline.graph.graph import Graph
from paceline.graph.kinds import Basis
from paceline.graph.late_gradients import made_last
from paceline.graph.rebucket.copies import copies_of, exchange_of
from paceline.graph.rebucket.source import source_of
from paceline.graph.scaled import scaled
from paceline.graph.sufficient_factors.gathers import gathers_of, members_of
from paceline.graph.sufficient_factors.new_ops import with_gathers
from paceline.graph.sufficient_factors.rows import FactorRows, rows_of
from paceline.graph.sufficient_factors.work import copies_back, work_of
from paceline.graph.weight_products import WeightGradients


def with_factors(
    graph: Graph, made: WeightGradients, payloads: Mapping[int, int], beside: float = 1.0
) -> Graph:
    """`payloads`: of each weight whose gradient is made so, the bytes that a rank hands over.
    `made` tells where these, and no others, are made. A gather by a library's threads that follows
    another takes `beside` of its price, for both are under way at once."""
    source, members = source_of(graph), members_of(graph)
    gathers = gathers_of(source, made, payloads, members)
    rest, work = _others(graph, payloads), work_of(graph, made)
    kept = sum(p.size_bytes for p in rest) / sum(graph.facts.gradient_bytes().values())
    less = scaled(graph, work.makes, members, Basis.ARITHMETIC)
    less = scaled(scaled(less, work.copies, 0.0), copies_back(graph, source), kept)
    buffers = gathers.size_bytes + gathers.size_bytes // members
    held = replace(less, memory=with_buffers(less, gathers.begins, gathers.last, buffers))
    gone = np.zeros(len(graph), np.bool_) if rest else exchange_of(source, copies_of(graph, source))
    found, there = with_gathers(held, source, replace(gathers, beside=beside), gone)
    last = made_last(found, there.waiting(made), gathers.order)
    memory = (replace(h, communication=round(h.communication * kept)) for h in graph.facts.memory)
    facts = replace(last.facts, parameters=rest, buckets=(), memory=tuple(memory))
    return replace(last, facts=facts)


def _others(graph: Graph, payloads: Mapping[int, int]) -> tuple[Parameter, ...]:
    """Parameters of other layers."""
    layers = {graph.facts.parameters[weight].layer for weight in payloads}
    return tuple(p for p in graph.facts.parameters if p.layer not in layers)


__all__ = ["FactorRows", "members_of", "rows_of", "with_factors"]
