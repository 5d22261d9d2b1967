"""`PairCalls`: the new collectives of all ranks and steps, and where they stand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, OpKind, Phase
from paceline.graph.rank_steps import RankSteps, firsts, lasts
from paceline.graph.remodel import passes_on
from paceline.graph.shared_pairs.pairs import SharedPair

HEADER_BYTES = 8
"""In front of a worker's rows at an entry: how many they are."""


@dataclass(frozen=True, eq=False)
class PairCalls:
    """One row each."""

    step: Int64  # row of `RankSteps`
    place: Int64  # in the order of a rank's step
    anchor: Int64  # the op beside which it stands
    before: Bool  # whether before it, or behind it
    size_bytes: Int64  # of all the group's workers
    sums: Bool  # whether it sums rows back to their workers, or puts them together
    until: Int64  # of a pair's entry: the op behind which the pass is done with its rows; else NONE


@dataclass(frozen=True, eq=False)
class PartCalls:
    """Reductions of parts' gradients, one row each."""

    step: Int64
    place: Int64
    ready: Int64  # the op that readies the gradient
    size_bytes: Int64


def pair_calls(graph: Graph, pairs: Sequence[SharedPair], degree: int) -> PairCalls:
    """Forward pair by pair, backward from the last."""
    steps, many = RankSteps.of(graph), len(pairs)
    made = [
        each
        for at, shared in enumerate(pairs)
        for each in _of_pair(_Layers(graph, steps), shared, degree, (at, 2 * many - 1 - at))
    ]
    columns = [np.concatenate([vars(call)[f.name] for call in made]) for f in fields(PairCalls)]
    return PairCalls(*columns)


def _of_pair(
    layers: "_Layers", shared: SharedPair, degree: int, turns: tuple[int, int]
) -> Iterator[PairCalls]:
    first, second = shared.pair.first, shared.pair.second
    entry, leave = degree * shared.entry_bytes, degree * shared.exit_bytes
    forward, backward = (2 * turn for turn in turns)
    done = layers.last(first.layer, Phase.BACKWARD)
    begins = layers.first(first.layer, Phase.FORWARD)
    yield _calls(begins, _Kind(forward, entry + degree * HEADER_BYTES, sums=False), done)
    yield _calls(layers.last(second.layer, Phase.FORWARD), _Kind(forward + 1, leave, sums=True))
    begins = layers.first(second.layer, Phase.BACKWARD)
    yield _calls(begins, _Kind(backward, leave, sums=False))
    if passes_on(layers.graph, first):
        yield _calls(done, _Kind(backward + 1, entry, sums=True))


@dataclass(frozen=True)
class _Kind:
    """What calls of all ranks and steps have in common. Rows are summed behind what makes them, and
    put together before what takes them."""

    place: int
    size_bytes: int
    sums: bool


def _calls(anchor: Int64, kind: _Kind, until: Int64 | None = None) -> PairCalls:
    step = np.flatnonzero(anchor != NONE)
    place, size, sums = (np.full(len(step), each) for each in vars(kind).values())
    done = np.full(len(step), NONE) if until is None else until[step]
    return PairCalls(step, place, anchor[step], ~sums, size, sums, done)


@dataclass(frozen=True, eq=False)
class _Layers:
    """Where layers begin and end, by rank's step; NONE in steps without them."""

    graph: Graph
    steps: RankSteps

    def first(self, layer: str, phase: Phase) -> Int64:
        rows = self._of(layer, phase)
        return firsts(self.steps.of_op[rows], rows, len(self.steps))

    def last(self, layer: str, phase: Phase) -> Int64:
        """In the backward pass behind what readies its gradients."""
        rows = self._of(layer, phase)
        ready = self._ready(layer) if phase is Phase.BACKWARD else rows[:0]
        every = np.union1d(rows, ready)
        return lasts(self.steps.of_op[every], every, len(self.steps))

    def _of(self, layer: str, phase: Phase) -> Int64:
        graph = self.graph
        mine = (graph.ops.layer == graph.names.index(layer)) & (graph.ops.phase == phase)
        return np.flatnonzero(mine & (graph.ops.kind == OpKind.COMPUTE))

    def _ready(self, layer: str) -> Int64:
        names = self.graph.names
        told = [at for at, name in enumerate(names) if name.rpartition(".")[0] == layer]
        return np.flatnonzero(np.isin(self.graph.ops.tensor, told))


def part_calls(graph: Graph, sizes: dict[str, int]) -> PartCalls:
    """By name of a parameter that is cut, the bytes of a part; in the order of readiness."""
    steps, names = RankSteps.of(graph), {name: at for at, name in enumerate(graph.names)}
    by_name = np.zeros(len(graph.names) + 1, np.int64)  # the last is that of ops without a tensor
    for name in sizes.keys() & names.keys():
        by_name[names[name]] = sizes[name]
    size = by_name[graph.ops.tensor]
    ready = np.flatnonzero(size > 0)
    step, tensor = steps.of_op[ready], graph.ops.tensor[ready].astype(np.int64)
    # of several ops that add to a gradient the last
    _, back = np.unique((step * len(by_name) + tensor)[::-1], return_index=True)
    kept = np.sort(len(ready) - 1 - back)
    kept = kept[np.argsort(step[kept], kind="stable")]
    ready, step = ready[kept], step[kept]
    place = np.arange(len(step)) - np.searchsorted(step, step)
    return PartCalls(step, place, ready, size[ready])
