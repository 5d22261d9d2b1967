"""What each piece of a recorded model costs a worker, cut into stages of about equal work.

Work without a layer belongs to the layer before it in its phase: of the forward pass to the one
that ran last, so that the loss is the last piece's. Copies of reduced gradients go with the update,
by their bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, LaneKind, Phase
from paceline.graph.remodel import by_bytes
from paceline.graph.scaled import works


@dataclass(frozen=True)
class PieceCost:
    """Of one worker's whole batch through some layers that follow one another."""

    forward_ns: int
    backward_ns: int
    update_ns: int
    gradient_bytes: int


@dataclass(frozen=True)
class JobCost:
    """A worker's step: its pieces, and loading the batch."""

    pieces: tuple[PieceCost, ...]
    load_ns: int


@dataclass(frozen=True)
class LayerTimes:
    """Of a mean worker's step: its layers in the order of the forward pass, and the update."""

    names: tuple[str, ...]
    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]
    update_ns: int


def layer_times(graph: Graph) -> LayerTimes:
    """The mean of all workers and steps."""
    order, count = _order(graph), _steps(graph)
    there, back = (_by_layer(graph, order, p) // count for p in (Phase.FORWARD, Phase.BACKWARD))
    copied = by_bytes(graph) & (graph.ops.phase == Phase.BACKWARD)
    update = _whole(graph, Phase.UPDATE) + int(graph.ops.dur_ns[copied].sum())
    names = tuple(graph.names[layer] for layer in order)
    return LayerTimes(names, tuple(there.tolist()), tuple(back.tolist()), update // count)


def job_cost(graph: Graph, pieces: int) -> JobCost:
    """The mean of all workers and steps, cut into so many pieces."""
    times = layer_times(graph)
    if len(times.names) < pieces:
        raise GraphError(
            f"the recording tells of {len(times.names)} layers, which cannot be cut into {pieces} "
            "pieces; ask for fewer stages, or record the job with `paceline record`"
        )
    sizes = _bytes_by_layer(graph, times.names)
    whole = sum(sizes) or 1
    cuts = balanced([a + b for a, b in zip(times.forward_ns, times.backward_ns)], pieces)
    made = tuple(
        PieceCost(
            sum(times.forward_ns[a:b]),
            sum(times.backward_ns[a:b]),
            times.update_ns * sum(sizes[a:b]) // whole,
            sum(sizes[a:b]),
        )
        for a, b in zip((0, *cuts), (*cuts, len(times.names)))
    )
    return JobCost(made, _whole(graph, Phase.DATA) // _steps(graph))


def balanced(work: Sequence[int], pieces: int) -> tuple[int, ...]:
    """Where to cut so that the largest piece is as small as can be; each has a layer or more."""
    held = [0, *np.cumsum(work).tolist()]
    best: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {
        (1, end): (held[end], ()) for end in range(1, len(held))
    }
    for piece in range(2, pieces + 1):
        for end in range(piece, len(held)):
            best[piece, end] = min(
                (max(best[piece - 1, at][0], held[end] - held[at]), (*best[piece - 1, at][1], at))
                for at in range(piece - 1, end)
            )
    return best[pieces, len(work)][1]


def _steps(graph: Graph) -> int:
    """Of all workers together."""
    return len({*zip(graph.ops.rank.tolist(), graph.ops.step.tolist())})


def _order(graph: Graph) -> list[int]:
    """Layers in the order of the forward pass, as rows of the name pool."""
    ops = graph.ops
    rows = (ops.phase == Phase.FORWARD) & (ops.layer != NONE)
    return list(dict.fromkeys(ops.layer[rows].tolist()))


def _busy(graph: Graph, phase: Phase) -> Int64:
    """Work of a phase on the lanes that compute."""
    ops, kinds = graph.ops, graph.lanes.kind[graph.ops.lane]
    mine = works(graph) & (ops.phase == phase) & (ops.dur_ns > 0)
    if phase is Phase.BACKWARD:
        mine &= ~by_bytes(graph)
    streams = graph.lanes.kind == LaneKind.STREAM
    if streams.any() and phase is not Phase.DATA:
        mine &= kinds == LaneKind.STREAM
    return np.flatnonzero(mine & (kinds != LaneKind.COMM_THREAD))


def _whole(graph: Graph, phase: Phase) -> int:
    return int(graph.ops.dur_ns[_busy(graph, phase)].sum())


def _by_layer(graph: Graph, order: Sequence[int], phase: Phase) -> Int64:
    ops, place = graph.ops, {layer: at for at, layer in enumerate(order)}
    found = np.zeros(len(order), np.int64)
    last: dict[tuple[int, int], int] = {}
    rows = _busy(graph, phase)
    outset = 0 if phase is Phase.FORWARD else len(order) - 1
    for rank, step, layer, took in zip(
        ops.rank[rows].tolist(), ops.step[rows].tolist(), ops.layer[rows].tolist(),
        ops.dur_ns[rows].tolist(),
    ):  # fmt: skip
        at = place.get(layer, last.get((rank, step), outset))
        last[rank, step] = at
        found[at] += took
    return found


def _bytes_by_layer(graph: Graph, layers: Sequence[str]) -> list[int]:
    """Gradients of each layer; those of modules within a layer's path, or of none told, of the
    layer before."""
    names = {layer: at for at, layer in enumerate(layers)}
    sizes, at = [0] * len(layers), 0
    for parameter in graph.facts.parameters:
        at = names.get(parameter.layer, at)
        sizes[at] += parameter.size_bytes
    return sizes
