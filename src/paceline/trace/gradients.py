"""Which op completes which gradient, where the recorder says in which order they become ready.

Steady steps run the same backward pass, so the k-th accumulation of a step on the backward thread
completes the k-th gradient of the detail step. The op gets the parameter's name as its `tensor`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from paceline.graph import NONE, Graph
from paceline.record.sidecar import Gradient, Parameter
from paceline.trace.assemble import RankBlock
from paceline.trace.trace import Int32, Int64
from paceline.trace.view import RankView

ACCUMULATION: Final = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
"""The profiler's name for the range in which a gradient is added up and DDP copies it away."""


@dataclass(frozen=True, eq=False)
class Ready:
    """Rows of a block that complete gradients, and the parameter of each."""

    row: Int64
    parameter: Int64


def label_gradients(graph: Graph, blocks: Sequence[RankBlock]) -> Graph:
    """The graph with `tensor` on ops that complete gradients; unchanged where nothing is known."""
    sidecars = [block.view.sidecar for block in blocks if block.view.sidecar is not None]
    parameters = sidecars[0].of(Parameter) if sidecars else []
    if not parameters:
        return graph
    first = np.cumsum([0, *(len(block.rows) for block in blocks)])
    names = {p.index: p.name for p in parameters}
    pool = {text: i for i, text in enumerate(graph.names)}
    tensor = graph.ops.tensor.copy()
    for block, start in zip(blocks, first):
        ready = gradient_rows(block)
        ids = [pool.setdefault(names[p], len(pool)) for p in ready.parameter.tolist()]
        tensor[start + ready.row] = np.array(ids, np.int32)
    return replace(graph, ops=replace(graph.ops, tensor=tensor), names=tuple(pool))


def gradient_rows(block: RankBlock) -> Ready:
    """The rows that complete gradients, in steps that accumulate as many as were recorded."""
    order = ready_order(block.view)
    rows: list[int] = []
    lane, ends = _accumulations(block)
    steps = _step_of(block, lane, ends)
    for step in np.unique(steps[steps != NONE]):
        mine = np.flatnonzero(steps == step)
        if len(mine) == len(order):
            rows += [_row_before(block, int(lane[i]), int(ends[i])) for i in mine]
    whole = rows if order else []
    return Ready(np.array(whole, np.int64), np.array(order * (len(whole) // max(1, len(order)))))


def ready_order(view: RankView) -> list[int]:
    """Parameters in the order in which their gradients became ready in the detail step."""
    recorded = view.sidecar.of(Gradient) if view.sidecar else []
    last = {g.parameter: g.ready_ns for g in recorded}
    return sorted(last, key=lambda p: last[p])


def _accumulations(block: RankBlock) -> tuple[Int32, Int64]:
    """Lane and end of every accumulation, in order of time. Those of a step before the first that
    was recorded are left out: where another rank began earlier, the graph waits there."""
    events = block.view.trace.events
    begun_ns = min((step.begin_ns for step in block.view.recorded_steps), default=0)
    chosen = np.flatnonzero(block.view.names_with(ACCUMULATION) & (events.end_ns >= begun_ns))
    chosen = chosen[np.argsort(events.end_ns[chosen], kind="stable")]
    return events.lane[chosen], events.end_ns[chosen]


def _step_of(block: RankBlock, lane: Int32, ends: Int64) -> Int32:
    found = [_row_before(block, int(on), int(end)) for on, end in zip(lane, ends)]
    return np.array([block.rows.step[row] if row != NONE else NONE for row in found], np.int32)


def _row_before(block: RankBlock, lane: int, at_ns: int) -> int:
    """The last row of the lane that starts before a moment."""
    mine = np.flatnonzero(block.rows.lane == lane)
    found = int(np.searchsorted(block.rows.start_ns[mine], at_ns, "left")) - 1
    return int(mine[found]) if found >= 0 else NONE
