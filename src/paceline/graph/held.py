"""What ops allocate for a batch of another size."""

from dataclasses import fields, replace

import numpy as np

from paceline.graph.facts import LayerMemory, RankMemory
from paceline.graph.graph import Graph
from paceline.graph.kinds import MemoryCategory, Phase

_OF_SAMPLES = (MemoryCategory.ACTIVATIONS, MemoryCategory.TEMPORARY)
_PASSES = (Phase.FORWARD, Phase.BACKWARD)


def with_batch(graph: Graph, factor: float) -> Graph:
    """Activations, what both passes take for a while, and the batch itself grow with the samples;
    what the update takes does not. Temporary gradients of weights are taken to grow too."""
    memory = graph.memory
    grows = np.isin(memory.category, _OF_SAMPLES) & np.isin(graph.ops.phase[memory.op], _PASSES)
    delta = np.where(grows, np.rint(memory.delta_bytes * factor), memory.delta_bytes)
    facts = replace(graph.facts, memory=tuple(_rank(h, factor) for h in graph.facts.memory))
    made = replace(memory, delta_bytes=delta.astype(np.int64))
    return replace(graph, memory=made, facts=facts)


def rank_with_batch(graph: Graph, rank: int, factor: float) -> Graph:
    """The same of one rank alone."""
    memory = graph.memory
    grows = np.isin(memory.category, _OF_SAMPLES) & np.isin(graph.ops.phase[memory.op], _PASSES)
    grows &= graph.ops.rank[memory.op] == rank
    delta = np.where(grows, np.rint(memory.delta_bytes * factor), memory.delta_bytes)
    held = (_rank(h, factor) if h.rank == rank else h for h in graph.facts.memory)
    made = replace(memory, delta_bytes=delta.astype(np.int64))
    return replace(graph, memory=made, facts=replace(graph.facts, memory=tuple(held)))


def _rank(held: RankMemory, factor: float) -> RankMemory:
    layers = tuple(_layer(layer, factor) for layer in held.layers)
    return replace(held, other=round(held.other * factor), layers=layers)


def _layer(layer: LayerMemory, factor: float) -> LayerMemory:
    sizes = [item.name for item in fields(LayerMemory) if item.name.endswith("_bytes")]
    return replace(layer, **{name: round(getattr(layer, name) * factor) for name in sizes})
