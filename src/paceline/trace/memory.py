"""What a rank holds, from the detail step of a recording: allocations by category on the recorded
steps' ops, and what each module keeps.

The detail step's allocator events tell every block of memory with its address; the recorder tells
which addresses autograd saved and which hold gradients. A step is taken to end as it began: a block
that it leaves behind stands for one that the next step gives back.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.graph import NONE, LayerMemory, MemoryCategory, RankMemory
from paceline.record.sidecar import Gradient, Layer, Memory, Mode, Parameter, Saved, Sidecar, Step
from paceline.trace.trace import Allocations, Category, Int64, Trace, columns
from paceline.trace.view import RankView

_NEVER = 1 << 62
FLOAT = "float32"


def with_memory(trace: Trace, sidecar: Sidecar, detail: Trace) -> Trace:
    """The trace with the detail step's allocations on each recorded step that runs its ops, and
    what the rank holds; unchanged where the recorder did not tell it."""
    seen = RankView(detail, sidecar)
    step = next((s for s in sidecar.of(Step) if s.mode is Mode.DETAIL), None)
    begins = [m for m in sidecar.of(Memory) if not m.peak]
    if step is None or not begins or seen.main_lane == NONE:
        return trace
    blocks = _settled(_labelled(blocks_of(detail.allocations, step), sidecar), sidecar, step)
    return replace(
        trace,
        allocations=_on_steps(RankView(trace, sidecar), seen, step, blocks),
        memory=replace(
            _held(trace.rank, begins[-1], blocks, sidecar),
            layers=tuple(layers_of(blocks, sidecar, _top_ops(seen))),
        ),
    )


@dataclass(frozen=True)
class Block:
    """Memory between its allocation and its release; `born_ns` 0 and `died_ns` _NEVER are outside
    the step."""

    address: int
    size_bytes: int
    device: int
    lane: int
    born_ns: int = 0
    died_ns: int = _NEVER
    category: MemoryCategory = MemoryCategory.TEMPORARY
    dtype: str = ""  # of what was saved in it


def blocks_of(events: Allocations, step: Step) -> list[Block]:
    """All blocks that were taken or given back within the step, in order of birth."""
    alive: dict[tuple[int, int], Block] = {}
    found: list[Block] = []
    rows = zip(*(getattr(events, name).tolist() for name in
                 ("at_ns", "lane", "address", "delta_bytes", "device")))  # fmt: skip
    for at, lane, address, delta, device in rows:
        if not step.begin_ns <= at < step.end_ns or not delta:
            continue
        if delta > 0:
            alive[device, address] = Block(address, delta, device, lane, born_ns=at)
            continue
        born = alive.pop((device, address), Block(address, -delta, device, lane))
        found.append(replace(born, died_ns=at))
    return sorted([*found, *alive.values()], key=lambda block: block.born_ns)


class _At:
    """Blocks by address, to ask which one was there at a moment."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._rows: dict[int, list[int]] = {}
        self._blocks = blocks
        for row, block in enumerate(blocks):
            self._rows.setdefault(block.address, []).append(row)

    def find(self, address: int, at_ns: int) -> int:
        """The row of the block; NONE where the address was not taken within the step."""
        rows = self._rows.get(address, [])
        last = bisect_right(rows, at_ns, key=lambda row: self._blocks[row].born_ns) - 1
        if last < 0 or self._blocks[rows[last]].died_ns < at_ns:
            return NONE
        return rows[last]


def _labelled(blocks: Sequence[Block], sidecar: Sidecar) -> list[Block]:
    """Each with its category; blocks that are neither saved nor a gradient are temporary."""
    found, at = list(blocks), _At(blocks)
    for saved in sidecar.of(Saved):
        row = at.find(saved.address, saved.saved_ns[0])
        if row != NONE:
            kind = MemoryCategory.ACTIVATIONS
            found[row] = replace(found[row], category=kind, dtype=saved.dtype)
    for gradient in sidecar.of(Gradient):
        row = at.find(gradient.address, gradient.ready_ns)
        if gradient.address and row != NONE:
            found[row] = replace(found[row], category=MemoryCategory.GRADIENTS)
    return found


def _settled(blocks: Sequence[Block], sidecar: Sidecar, step: Step) -> list[Block]:
    """Each block that outlives the step has one that was there before it and goes within it: of its
    size, or the parameter's last gradient. What has none is given back at the step's end, or left
    out."""
    left = _outliving(blocks)
    found = dict(enumerate(blocks))
    for row, block in enumerate(blocks):
        if block.born_ns:
            continue
        partners = left.get(block.size_bytes)
        if partners:
            found[row] = replace(block, category=blocks[partners.pop()].category)
        else:
            del found[row]
    at, freed = _At(blocks), dict[int, int]()
    for gradient in sidecar.of(Gradient):
        freed[at.find(gradient.address, gradient.ready_ns)] = gradient.freed_ns
    older: list[Block] = []
    for row in (row for rows in left.values() for row in rows):
        if freed.get(row):
            older.append(replace(blocks[row], born_ns=0, died_ns=freed[row]))
        else:
            found[row] = replace(blocks[row], died_ns=step.end_ns)
    return [*older, *(found[row] for row in sorted(found))]


def _outliving(blocks: Sequence[Block]) -> dict[int, list[int]]:
    """Rows of the blocks that outlive the step, by size; gradients last."""
    left: dict[int, list[int]] = {}
    for row, block in enumerate(blocks):
        if block.died_ns == _NEVER:
            left.setdefault(block.size_bytes, []).append(row)
    for rows in left.values():
        rows.sort(key=lambda row: blocks[row].category is MemoryCategory.GRADIENTS)
    return left


def _on_steps(view: RankView, seen: RankView, detail: Step, blocks: Sequence[Block]) -> Allocations:
    """The blocks' events on every recorded step that runs the detail step's ops."""
    rows: list[tuple[int, ...]] = []
    events = sorted(_events(blocks), key=lambda event: event[0])
    for lane in sorted({event[1] for event in events}):
        there = view.thread_lane(seen.trace.lanes[lane].thread)
        mine = [event for event in events if event[1] == lane]
        for step in view.recorded_steps if there != NONE else ():
            rows += _moved(mine, _Ops.of(seen, lane, detail), _Ops.of(view, there, step))
    return columns(Allocations, sorted(rows, key=lambda row: row[1]))


def _events(blocks: Iterable[Block]) -> Iterable[tuple[int, ...]]:
    """Moment, lane, address, bytes, device and category of each allocation and release."""
    for b in blocks:
        if b.born_ns:
            yield b.born_ns, b.lane, b.address, b.size_bytes, b.device, b.category
        if b.died_ns != _NEVER:
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


def _moved(events: Sequence[tuple[int, ...]], seen: _Ops, there: _Ops) -> Iterable[tuple[int, ...]]:
    """The events at the starts of the same ops of another step; none where its ops differ."""
    if not len(seen.start_ns) or seen.names != there.names:
        return
    at = np.array([event[0] for event in events], np.int64)
    op = np.maximum(np.searchsorted(seen.start_ns, at, "right") - 1, 0)
    for event, start_ns in zip(events, there.start_ns[op].tolist()):
        yield there.lane, start_ns, *event[2:]


def _held(rank: int, begin: Memory, blocks: Sequence[Block], sidecar: Sidecar) -> RankMemory:
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


def _standing(blocks: Sequence[Block], sidecar: Sidecar) -> int:
    """What lay there before the step and is neither the model's nor its optimizer's: the batch."""
    at, found = _At(blocks), dict[int, int]()
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


def layers_of(blocks: Sequence[Block], sidecar: Sidecar, top: Int64) -> Iterable[LayerMemory]:
    """What each module keeps, in the order in which they begin; `top` are the starts of the ops that
    lie in no other. A module that runs several times is told as often as one; of the wrapper and
    the wrapped, both the whole model, the inner one."""
    at, saves = _At(blocks), _saves(blocks, sidecar)
    calls: dict[str, list[Layer]] = {}
    for layer in sidecar.of(Layer):
        named = calls.setdefault(layer.module, [])
        if layer.module or not named:
            named.append(layer)
    inner = _Inner([call for named in calls.values() for call in named])
    read = _read_at_once(blocks, saves, inner, top)
    own: dict[str, int] = {}
    for block in blocks:
        if block.dtype == FLOAT:
            name = inner.at(block.born_ns)
            own[name] = own.get(name, 0) + block.size_bytes
    for name, named in sorted(calls.items(), key=lambda item: item[1][0].begin_ns):
        parts = [_kept_in(call, blocks, at, saves) for call in named]
        kept, output, own_output, given = (sum(column) for column in zip(*parts))
        yield LayerMemory(
            name,
            named[0].kind,
            kept_bytes=kept,
            output_bytes=output,
            own_output_bytes=own_output,
            input_bytes=given,
            float_bytes=own.get(name, 0),
            read_bytes=read.get(name, 0),
        )


Saves = Mapping[int, Sequence[int]]
"""When a block was saved, by its row."""


def _saves(blocks: Sequence[Block], sidecar: Sidecar) -> Saves:
    at, found = _At(blocks), dict[int, list[int]]()
    for saved in sidecar.of(Saved):
        row = at.find(saved.address, saved.saved_ns[0])
        if row != NONE:
            found.setdefault(row, []).extend(saved.saved_ns)
    return found


def _read_at_once(
    blocks: Sequence[Block], saves: Saves, inner: "_Inner", top: Int64
) -> dict[str, int]:
    """By module, the most float32 bytes that one of its ops saved: its backward op reads them."""
    by_op: dict[tuple[str, int], set[int]] = {}
    for row, moments in saves.items():
        if blocks[row].dtype == FLOAT:
            for at_ns in moments:
                op = int(np.searchsorted(top, at_ns, "right"))
                by_op.setdefault((inner.at(at_ns), op), set()).add(row)
    found: dict[str, int] = {}
    for (name, _), rows in by_op.items():
        found[name] = max(found.get(name, 0), sum(blocks[row].size_bytes for row in rows))
    return found


def _kept_in(
    call: Layer, blocks: Sequence[Block], at: _At, saves: Saves
) -> tuple[int, int, int, int]:
    """Bytes kept; of outputs that others save; of these that it saves too; and of inputs that
    neither it nor what follows saves."""
    inside = {
        row
        for row, block in enumerate(blocks)
        if call.begin_ns <= block.born_ns <= call.end_ns and row in saves
    }
    results = {at.find(address, call.end_ns) for address in call.outputs} & inside
    read = {row for row in results if max(saves[row]) > call.end_ns}
    own = {row for row in read if min(saves[row]) <= call.end_ns}
    given = {at.find(address, call.begin_ns) for address in call.inputs} - {NONE}
    given = {row for row in given if row not in saves or max(saves[row]) < call.begin_ns}

    def size(rows: set[int]) -> int:
        return sum(blocks[row].size_bytes for row in rows)

    return size(inside), size(read), size(own), size(given)


class _Inner:
    """Which module's forward pass runs at a moment: the innermost; "" outside of all."""

    def __init__(self, calls: Sequence[Layer]) -> None:
        borders = sorted({border for call in calls for border in (call.begin_ns, call.end_ns)})
        self._borders, self._names = borders, [""] * len(borders)
        for call in sorted(calls, key=lambda call: call.begin_ns - call.end_ns):
            first, last = bisect_right(borders, call.begin_ns), bisect_right(borders, call.end_ns)
            self._names[first - 1 : last - 1] = [call.module] * (last - first)

    def at(self, moment_ns: int) -> str:
        row = bisect_right(self._borders, moment_ns) - 1
        return self._names[row] if row >= 0 else ""


def _top_ops(seen: RankView) -> Int64:
    """When the training thread's ops begin that lie in no other."""
    events = seen.trace.events
    rows = np.flatnonzero((events.lane == seen.main_lane) & (events.category == Category.CPU_OP))
    start, end = events.start_ns[rows], events.end_ns[rows]
    if not len(rows):
        return start
    before = np.concatenate([[0], np.maximum.accumulate(end)[:-1]])
    return start[start >= before]
