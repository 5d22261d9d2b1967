"""What a rank holds, from the detail step of a recording: allocations by category on the recorded
steps' ops, what stands from step to step, and what each module keeps.

Sizes are those of the detail step. A recorded step that runs some other ops, as a mixture of
experts does, is told them too, and how far it differs; one that is another step altogether is not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.graph import NONE, MemoryCategory, RankMemory
from paceline.record.sidecar import Layer, Memory, Mode, Parameter, Saved, Sidecar, Step
from paceline.trace.alike import apart, matched
from paceline.trace.blocks import NEVER, BlockAt, MemoryBlock, blocks_of, labelled, settled
from paceline.trace.layer_memory import layers_of, top_ops
from paceline.trace.trace import Allocations, Category, Int64, Trace, columns
from paceline.trace.view import RankView


def with_memory(trace: Trace, sidecar: Sidecar, detail: Trace) -> Trace:
    """The trace with the detail step's allocations on each recorded step that is like it, and what
    the rank holds; unchanged where the recorder did not tell it."""
    seen = RankView(detail, sidecar)
    step = next((s for s in sidecar.of(Step) if s.mode is Mode.DETAIL), None)
    begins = [m for m in sidecar.of(Memory) if not m.peak]
    if step is None or not begins or seen.main_lane == NONE:
        return trace
    blocks = settled(labelled(blocks_of(detail.allocations, step), sidecar), sidecar, step)
    events, other_ops = _on_steps(RankView(trace, sidecar), seen, step, blocks)
    return replace(
        trace,
        allocations=events,
        memory=replace(
            _held(trace.rank, begins[-1], blocks, sidecar),
            layers=tuple(layers_of(blocks, sidecar, top_ops(seen))),
            step=step.index,
            other_ops=round(other_ops, 4),
        ),
    )


def _on_steps(
    view: RankView, seen: RankView, detail: Step, blocks: Sequence[MemoryBlock]
) -> tuple[Allocations, float]:
    """The blocks' events on every recorded step that is like the detail step, and the largest part
    of such a step's ops that has no partner there."""
    rows: list[tuple[int, ...]] = []
    other_ops = 0.0
    events = sorted(_events(blocks), key=lambda event: event[0])
    for lane in sorted({event[1] for event in events}):
        there = view.thread_lane(seen.trace.lanes[lane].thread)
        mine, ops = [e for e in events if e[1] == lane], _Ops.of(seen, lane, detail)
        for step in view.recorded_steps if there != NONE and ops.names else ():
            others = _Ops.of(view, there, step)
            place = matched(ops.names, others.names)
            other_ops = max(other_ops, apart(place, len(others.names)))
            rows += _moved(mine, ops, others, place)
    return columns(Allocations, sorted(rows, key=lambda row: row[1])), other_ops


def _events(blocks: Iterable[MemoryBlock]) -> Iterable[tuple[int, ...]]:
    """Moment, lane, address, bytes, device and category of each allocation and release."""
    for b in blocks:
        if b.born_ns:
            yield b.born_ns, b.lane, b.address, b.size_bytes, b.device, b.category
        if b.died_ns != NEVER:
            yield b.died_ns, b.lane, b.address, -b.size_bytes, b.device, b.category


@dataclass(frozen=True, eq=False)
class _Ops:
    """The operators of one thread within a step, in order."""

    lane: int
    start_ns: Int64
    names: list[str]

    @staticmethod
    def of(view: RankView, lane: int, step: Step) -> "_Ops":
        events = view.trace.events
        inside = (events.start_ns >= step.begin_ns) & (events.start_ns < step.end_ns)
        rows = np.flatnonzero(inside & (events.lane == lane) & (events.category == Category.CPU_OP))
        names = [view.trace.names[name] for name in events.name[rows].tolist()]
        return _Ops(lane, events.start_ns[rows], names)


def _moved(
    events: Sequence[tuple[int, ...]], seen: _Ops, there: _Ops, place: Int64 | None
) -> Iterable[tuple[int, ...]]:
    """The events at the starts of the same ops of another step; of an op without a partner, at the
    last one before it that has one. None where they are other steps."""
    if place is None or not len(there.start_ns):
        return
    at = np.array([event[0] for event in events], np.int64)
    op = np.maximum(np.searchsorted(seen.start_ns, at, "right") - 1, 0)
    known = np.maximum(np.maximum.accumulate(place), 0)
    for event, start_ns in zip(events, there.start_ns[known[op]].tolist()):
        yield there.lane, start_ns, *event[2:]


def _held(rank: int, begin: Memory, blocks: Sequence[MemoryBlock], sidecar: Sidecar) -> RankMemory:
    parameters = sidecar.of(Parameter)
    weights = max((p.shards for p in parameters), default=1)
    update = max((p.shards * p.owners for p in parameters), default=1)
    return RankMemory(
        rank=rank,
        weights=begin.weights * weights,
        gradients=begin.gradients * weights,
        optimizer=begin.optimizer * update,
        communication=begin.communication,
        other=_standing(blocks, sidecar),
        weight_shards=weights,
    )


def _standing(blocks: Sequence[MemoryBlock], sidecar: Sidecar) -> int:
    """What lay there before the step and is neither the model's nor its optimizer's: the batch."""
    at, found = BlockAt(blocks), dict[int, int]()
    for saved in sidecar.of(Saved):
        if at.find(saved.address, saved.saved_ns[0]) == NONE:
            found[saved.address] = saved.size_bytes
    for layer in sidecar.of(Layer):
        if not layer.module:
            inputs = layer.inputs.items()
            found |= {a: size for a, size in inputs if at.find(a, layer.begin_ns) == NONE}
    older = (b for b in blocks if not b.born_ns and b.category is not MemoryCategory.GRADIENTS)
    found |= {block.address: block.size_bytes for block in older}
    return sum(found.values())
