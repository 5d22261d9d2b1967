"""What each piece of a recorded model costs a worker, cut into stages of about equal work.

Work without a layer belongs to the layer before it in its phase; behind the last layer of a forward
pass, and before the first of a backward pass, it is the loss's. Copies of reduced gradients go with
the update, by their bytes. Layers of one numbered block (`layers.3`) stay together, for within it
more than one tensor may pass.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, LaneKind, Phase
from paceline.graph.numbered import numbered_block
from paceline.graph.remodel import by_bytes
from paceline.graph.scaled import works
from paceline.graph.work import Work, given_bytes


@dataclass(frozen=True)
class PieceCost:
    """Of one worker's whole batch through some layers that follow one another."""

    forward_ns: int
    backward_ns: int
    update_ns: int
    gradient_bytes: int


@dataclass(frozen=True)
class JobCost:
    """A worker's step: its pieces, loading the batch, and the loss. `edge_bytes` are what passes
    into the first piece, between pieces, and out of the last; 0 where the recording does not
    tell."""

    pieces: tuple[PieceCost, ...]
    load_ns: int
    edge_bytes: tuple[int, ...]
    loss_forward_ns: int = 0
    loss_backward_ns: int = 0


@dataclass(frozen=True)
class LayerTimes:
    """Of a mean worker's step: its layers in the order of the forward pass, and the update. The
    last layer's have the loss's in them."""

    names: tuple[str, ...]
    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]
    update_ns: int
    loss_forward_ns: int = 0
    loss_backward_ns: int = 0


def layer_times(graph: Graph) -> LayerTimes:
    """The mean of all workers and steps."""
    order, count = _order(graph), _steps(graph)
    passes = (Phase.FORWARD, Phase.BACKWARD)
    (there, ahead), (back, behind) = (_by_layer(graph, order, phase) for phase in passes)
    copied = by_bytes(graph) & (graph.ops.phase == Phase.BACKWARD)
    update = _whole(graph, Phase.UPDATE) + int(graph.ops.dur_ns[copied].sum())
    names = tuple(graph.names[layer] for layer in order)
    forward, backward = (tuple((took // count).tolist()) for took in (there, back))
    return LayerTimes(names, forward, backward, update // count, ahead // count, behind // count)


def job_cost(graph: Graph, pieces: int, begins: Sequence[str] = ()) -> JobCost:
    """The mean of all workers and steps, cut into so many pieces: where those layers begin, or into
    pieces of about equal work between which little passes."""
    times = layer_times(graph)
    parts = _parts(times.names)
    if len(parts) - 1 < pieces:
        raise GraphError(
            f"the recording tells of {len(parts) - 1} layers or blocks, which cannot be cut into "
            f"{pieces} pieces; ask for fewer stages, or record the job with `paceline record`"
        )
    lost = times.loss_forward_ns, times.loss_backward_ns
    there, back = (
        [*took[:-1], took[-1] - loss]
        for took, loss in zip((times.forward_ns, times.backward_ns), lost)
    )
    sizes = _bytes_by_layer(graph, times.names)
    whole = sum(sizes) or 1
    spent = [a + b for a, b in zip(there, back)]
    passing = _passing(graph, times.names)
    behind = [passing[end - 1] for end in parts[1:]]
    cuts = _named(times.names, parts, begins) or [
        parts[at] for at in about_balanced(_sums(spent, parts[1:-1]), behind, pieces)
    ]
    ends = [0, *cuts, len(times.names)]
    made = tuple(
        PieceCost(
            sum(there[a:b]), sum(back[a:b]), times.update_ns * sum(sizes[a:b]) // whole,
            sum(sizes[a:b]),
        )
        for a, b in pairwise(ends)
    )  # fmt: skip
    edges = (_entering(graph, times.names[0]), *(passing[end - 1] for end in ends[1:]))
    return JobCost(made, _whole(graph, Phase.DATA) // _steps(graph), edges, *lost)


def _parts(layers: Sequence[str]) -> list[int]:
    """Where layers begin behind which a model may be cut, and the end."""
    block = [numbered_block(layer) or layer for layer in layers]
    begins = [at for at in range(len(layers)) if not at or block[at] != block[at - 1]]
    return [*begins, len(layers)]


def _named(layers: Sequence[str], parts: Sequence[int], begins: Sequence[str]) -> list[int]:
    """Where parts begin that are, or hold, layers of those names."""
    found = []
    for name in begins:
        fits = [at for at in parts[:-1] if layers[at] == name or layers[at].startswith(f"{name}.")]
        if not fits:
            told = ", ".join(layers[at] for at in parts[1:-1])
            raise GraphError(f"no piece can begin with {name!r}; it can with {told}")
        found.append(fits[0])
    return sorted(found)


def _passing(graph: Graph, layers: Sequence[str]) -> list[int]:
    """Bytes of each layer's result, by its last operator whose work is known; of those before it
    where none is."""
    found, last = [], 0
    written = {layer: work.written_bytes for layer, work in _forward_works(graph)}
    for layer in layers:
        last = written.get(layer, last)
        found.append(last)
    return found


def _entering(graph: Graph, layer: str) -> int:
    """Bytes of the batch that the first layer takes, as far as its first operator tells."""
    work = next((work for name, work in _forward_works(graph) if name == layer), None)
    return 0 if work is None else given_bytes(work)


def _forward_works(graph: Graph) -> Iterator[tuple[str, Work]]:
    """What the first rank's operators worked on in its last forward pass, by layer, in order."""
    ops = graph.ops
    mine = (ops.phase == Phase.FORWARD) & (ops.layer != NONE) & (ops.work != NONE)
    mine &= ops.rank == ops.rank.min(initial=0)
    rows = np.flatnonzero(mine)
    for row in rows[ops.step[rows] == ops.step[rows].max(initial=0)].tolist():
        yield graph.names[ops.layer[row]], graph.works[ops.work[row]].work


def balanced(work: Sequence[int], pieces: int) -> tuple[int, ...]:
    """Where to cut so that the largest piece is as small as can be; each has a layer or more."""
    return _cut(work, pieces, lambda _, largest: (largest,))


def about_balanced(work: Sequence[int], passing: Sequence[int], pieces: int) -> tuple[int, ...]:
    """The same where the least passes between pieces (`passing`: behind each layer), if the largest
    piece is at most a twentieth larger for it: so cuts do not hang on what a clock can tell."""
    best = max(_sums(work, balanced(work, pieces)))

    def worth(cuts: tuple[int, ...], largest: int) -> tuple[int, ...]:
        return largest > best + best // 20, sum(passing[at - 1] for at in cuts), largest

    return _cut(work, pieces, worth)


def _cut(
    work: Sequence[int], pieces: int, worth: Callable[[tuple[int, ...], int], tuple[int, ...]]
) -> tuple[int, ...]:
    """The cuts worth least, of all; `worth` grows with every cut and with the largest piece."""
    held = [0, *np.cumsum(work).tolist()]
    best: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {
        (1, end): (held[end], ()) for end in range(1, len(held))
    }
    for piece in range(2, pieces + 1):
        for end in range(piece, len(held)):
            best[piece, end] = min(
                (
                    (
                        max(best[piece - 1, at][0], held[end] - held[at]),
                        (*best[piece - 1, at][1], at),
                    )
                    for at in range(piece - 1, end)
                ),
                key=lambda found: (*worth(found[1], found[0]), found),
            )
    return best[pieces, len(work)][1]


def _sums(work: Sequence[int], cuts: Sequence[int]) -> list[int]:
    return [sum(work[a:b]) for a, b in pairwise([0, *cuts, len(work)])]


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


def _by_layer(graph: Graph, order: Sequence[int], phase: Phase) -> tuple[Int64, int]:
    """And of that, what is the loss's: behind all layers, or before them."""
    ops, place = graph.ops, {layer: at for at, layer in enumerate(order)}
    found = np.zeros(len(order), np.int64)
    last: dict[tuple[int, int], int] = {}
    rows = _busy(graph, phase)
    forward = phase is Phase.FORWARD
    outset, loss = 0 if forward else len(order) - 1, dict[tuple[int, int], int]()
    for rank, step, layer, took in zip(
        ops.rank[rows].tolist(), ops.step[rows].tolist(), ops.layer[rows].tolist(),
        ops.dur_ns[rows].tolist(),
    ):  # fmt: skip
        where = rank, step
        at = place.get(layer, last.get(where, outset))
        if layer in place:
            last[where] = at
            loss[where] = 0 if forward else loss.get(where, 0)
        elif forward or where not in last:
            loss[where] = loss.get(where, 0) + took
        found[at] += took
    return found, sum(loss.values()) if last else 0


def _bytes_by_layer(graph: Graph, layers: Sequence[str]) -> list[int]:
    """Gradients of each layer; those of modules within a layer's path, or of none told, of the
    layer before."""
    names = {layer: at for at, layer in enumerate(layers)}
    sizes, at = [0] * len(layers), 0
    for parameter in graph.facts.parameters:
        at = names.get(parameter.layer, at)
        sizes[at] += parameter.size_bytes
    return sizes
