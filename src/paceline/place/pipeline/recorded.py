"""What each layer costs, from a recorded or imagined graph: the planners' input.

Of one rank and its first step with a backward part. A layer's output is what its last forward op
passes on (`place.output_sizes`), and the next one's input. Weights and activations are those that
the graph has memory events of; what it does not tell of is said in the profile's notes.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from paceline.graph import Graph, MemoryCategory, Phase
from paceline.graph.graph import Bool, Int64
from paceline.place.output_sizes import OutputSizes, output_sizes
from paceline.place.pipeline.errors import PlanError
from paceline.place.pipeline.profile import LayerCost, PipelineProfile


def profile_of(graph: Graph, size: int) -> PipelineProfile:
    """Layers of a recorded step of one rank with micro-batches of `size` samples."""
    rank = graph.ops.rank == min(graph.ranks, default=0)
    one = rank & (graph.ops.step == _step(graph, rank))
    forward = one & (graph.ops.phase == Phase.FORWARD) & (graph.ops.layer >= 0)
    order = list(dict.fromkeys(graph.ops.layer[forward].tolist()))
    if not order:
        raise PlanError(
            "the graph has no forward ops with a layer; record with layers, or give a JSON profile"
        )
    results = output_sizes(graph)
    rows = [np.flatnonzero(forward & (graph.ops.layer == layer)) for layer in order]
    last = np.array([_last_known(mine, results) for mine in rows], np.int64)
    outputs = results.size_bytes[last].tolist()
    layers = tuple(
        _cost(graph, one & (graph.ops.layer == layer), graph.names[layer], weight, given, made)
        for layer, weight, given, made in zip(
            order, _weights(graph, rank, one, order), [0, *outputs], outputs
        )
    )
    return PipelineProfile(
        {size: layers}, (*results.notes(last[:-1], "layers"), *_without_memory(layers))
    )


def _step(graph: Graph, rank: Bool) -> int:
    """The first that has backward ops, or the first."""
    backward = np.unique(graph.ops.step[rank & (graph.ops.phase == Phase.BACKWARD)])
    steps = backward if len(backward) else np.unique(graph.ops.step[rank])
    return int(steps[0]) if len(steps) else 0


def _last_known(rows: Int64, results: OutputSizes) -> int:
    """The last op of those whose results are known best: one that works in place allocates none."""
    return int(rows[results.basis[rows] == results.basis[rows].max()][-1])


def _cost(graph: Graph, mine: Bool, name: str, weight: int, given: int, made: int) -> LayerCost:
    def spent(phase: Phase) -> int:
        return int(graph.ops.dur_ns[mine & (graph.ops.phase == phase)].sum())

    return LayerCost(
        name,
        spent(Phase.FORWARD),
        spent(Phase.BACKWARD),
        spent(Phase.UPDATE),
        weight,
        _allocated(graph, mine, MemoryCategory.ACTIVATIONS),
        given,
        made,
    )


def _weights(graph: Graph, rank: Bool, one: Bool, order: Sequence[int]) -> list[int]:
    """Of each layer. An imagined run holds all weights before its first op: they are shared out by
    the gradients that each layer's backward part makes."""
    own = [_allocated(graph, rank & (graph.ops.layer == x), MemoryCategory.WEIGHTS) for x in order]
    backward = one & (graph.ops.phase == Phase.BACKWARD)
    made = [
        _allocated(graph, backward & (graph.ops.layer == x), MemoryCategory.GRADIENTS)
        for x in order
    ]
    whole = _allocated(graph, rank, MemoryCategory.WEIGHTS)
    if sum(weight > 0 for weight in own) > 1 or not sum(made) or not whole:
        return own
    return [round(whole * gradient / sum(made)) for gradient in made]


def _allocated(graph: Graph, rows: Bool, category: MemoryCategory) -> int:
    memory = graph.memory
    mine = rows[memory.op] & (memory.category == category) & (memory.delta_bytes > 0)
    return int(memory.delta_bytes[mine].sum())


def _without_memory(layers: Sequence[LayerCost]) -> Iterator[str]:
    for what, name in (("weight_bytes", "weights"), ("kept_bytes", "activations")):
        if not any(getattr(layer, what) for layer in layers):
            yield (
                f"the graph has no memory events of {name}: they count as nothing, and whether a "
                "plan fits is not known. Imagine the run, or give a JSON profile."
            )
