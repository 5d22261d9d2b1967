"""What ops allocate for a batch of another size."""

from collections import OrderedDict
from collections.abc import Sequence
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


def ranks_with_batches(graph: Graph, factors: Sequence[float]) -> Graph:
    """The same with a factor for each rank."""
    memory, by_rank = graph.memory, np.array(factors)
    grows = np.isin(memory.category, _OF_SAMPLES) & np.isin(graph.ops.phase[memory.op], _PASSES)
    grown = np.rint(memory.delta_bytes * by_rank[graph.ops.rank[memory.op]])
    made = replace(memory, delta_bytes=np.where(grows, grown, memory.delta_bytes).astype(np.int64))
    held = tuple(_rank(h, factors[h.rank]) for h in graph.facts.memory)
    return replace(graph, memory=made, facts=replace(graph.facts, memory=held))


def _rank(held: RankMemory, factor: float) -> RankMemory:
    """Remembered by identity: plans of one job ask for the same again and again."""
    asked = id(held), factor
    if asked not in _grown:
        layers = tuple(_layer(layer, factor) for layer in held.layers)
        _grown[asked] = held, replace(held, other=round(held.other * factor), layers=layers)
    if len(_grown) > _REMEMBERED:
        _grown.popitem(last=False)
    return _grown[asked][1]


_REMEMBERED = 64
_grown: OrderedDict[tuple[int, float], tuple[RankMemory, RankMemory]] = OrderedDict()
_SIZES = [item.name for item in fields(LayerMemory) if item.name.endswith("_bytes")]


def _layer(layer: LayerMemory, factor: float) -> LayerMemory:
    return replace(layer, **{name: round(getattr(layer, name) * factor) for name in _SIZES})
