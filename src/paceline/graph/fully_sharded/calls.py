"""`Calls`: the collectives of FSDP2, of all ranks and steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, Collective, LaneKind, OpKind, Phase
from paceline.graph.numbered import numbered_block
from paceline.graph.rank_steps import firsts, lasts
from paceline.graph.rebucket.source import Source


@dataclass(frozen=True, eq=False)
class Calls:
    """New collectives of all ranks and steps, one row each."""

    step: Int64  # row of `RankSteps`
    kind: Int64  # Collective
    size_bytes: Int64
    behind: Int64  # the op behind which it stands on its thread
    reader: Int64  # the kernel that waits for it, or NONE
    until: Int64  # of a gather: the op behind which its weights are given up; else NONE
    feeds: Int64  # of a reduction, the block it is of; else NONE
    thread: Int64  # an op of the thread that hands it over
    weights: Int64  # how many it is of

    @staticmethod
    def joined(parts: "Sequence[Calls]") -> "Calls":
        """In the order in which each rank's step issues them; reductions before gathers."""
        columns = [np.concatenate([vars(part)[name] for part in parts]) for name in _COLUMNS]
        step, kind, _, behind, *_ = columns
        order = np.lexsort((kind == Collective.ALL_GATHER, behind, step))
        return Calls(*(column[order] for column in columns))

    def __len__(self) -> int:
        return len(self.step)

    @property
    def place(self) -> Int64:
        """Of each in its rank's step."""
        first = np.searchsorted(self.step, self.step)
        return np.arange(len(self)) - first


_COLUMNS = [field.name for field in fields(Calls)]


def calls_of(graph: Graph, source: Source, blocks: Mapping[str, Sequence[int]]) -> Calls:
    return Calls.joined([*_of_blocks(graph, source, blocks)])


def blocks_of(layers: Sequence[str]) -> dict[str, list[int]]:
    """By path: the parameters of each numbered block, the outermost number of their layers' paths;
    what lies outside of blocks under no path."""
    found: dict[str, list[int]] = {}
    for parameter, layer in enumerate(layers):
        found.setdefault(numbered_block(layer), []).append(parameter)
    return found


def _of_blocks(
    graph: Graph, source: Source, blocks: Mapping[str, Sequence[int]]
) -> Iterator[Calls]:
    ops, sizes = graph.ops, source.size_bytes
    begins = [path for path in blocks if path]
    block = _block_of_op(graph, begins)
    passes = np.isin(ops.kind, (OpKind.COMPUTE, OpKind.HOST))
    for at, (path, parameters) in enumerate(blocks.items()):
        whole = int(sizes[list(parameters)].sum())
        mine = passes & (block == begins.index(path)) if path else passes
        forward, back = (mine & (ops.phase == phase) for phase in (Phase.FORWARD, Phase.BACKWARD))
        ready = source.ready[:, list(parameters)].max(axis=1)
        until = (_last(source, forward), ready) if path else (ready, ready)
        held = _Held(whole, len(parameters))
        yield _gathers(graph, source, forward, held, until[0])
        if path:
            yield _gathers(graph, source, back, held, until[1])
        step = np.flatnonzero((ready != NONE) & (source.first != NONE))
        handed = source.launcher[ready[step]]
        none = np.full(len(step), NONE)
        kind = np.full(len(step), _REDUCED[on_device(graph)])
        size, weights = np.full(len(step), whole), np.full(len(step), len(parameters))
        feeds = np.full(len(step), at)
        yield Calls(step, kind, size, handed, none, none, feeds, handed, weights)


_REDUCED = {True: Collective.REDUCE_SCATTER, False: Collective.ALL_TO_ALL}
"""Gloo runs a reduce-scatter as an all-reduce; parts go straight to their owners instead."""


def on_device(graph: Graph) -> bool:
    return bool((graph.lanes.kind == LaneKind.STREAM).any())


@dataclass(frozen=True)
class _Held:
    """What a block holds."""

    size_bytes: int
    weights: int


def _gathers(graph: Graph, source: Source, mine: Bool, held: _Held, until: Int64) -> Calls:
    """Before the first of these ops in each rank's step, on its thread."""
    first = _first(source, mine)
    step = np.flatnonzero((first != NONE) & (source.first != NONE))
    first = first[step]
    on_stream = graph.lanes.kind[graph.ops.lane[first]] == LaneKind.STREAM
    thread, none = source.launcher[first], np.full(len(step), NONE)
    return Calls(
        step,
        np.full(len(step), Collective.ALL_GATHER),
        np.full(len(step), held.size_bytes),
        thread - 1,
        np.where(on_stream, first, NONE),
        until[step],
        none,
        thread,
        np.full(len(step), held.weights),
    )


def _first(source: Source, rows: Bool) -> Int64:
    ops = np.flatnonzero(rows)
    return firsts(source.steps.of_op[ops], ops, len(source.steps))


def _last(source: Source, rows: Bool) -> Int64:
    ops = np.flatnonzero(rows)
    return lasts(source.steps.of_op[ops], ops, len(source.steps))


def _block_of_op(graph: Graph, paths: Sequence[str]) -> Int64:
    """By op: the block in which its layer lies, or NONE."""
    of_name = np.full(len(graph.names) + 1, NONE, np.int64)
    for name in np.unique(graph.ops.layer).tolist():
        text = graph.text(name) if name != NONE else ""
        inside = (at for at, path in enumerate(paths) if f"{text}.".startswith(f"{path}."))
        of_name[name] = next(inside, NONE)
    found: Int64 = of_name[graph.ops.layer]
    return found
