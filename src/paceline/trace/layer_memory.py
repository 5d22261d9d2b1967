"""What each module keeps for the backward pass, from the blocks of the detail step."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from paceline.graph import NONE, LayerMemory
from paceline.record.sidecar import Layer, Saved, Sidecar
from paceline.trace.blocks import BlockAt, MemoryBlock
from paceline.trace.trace import Category, Int64
from paceline.trace.view import RankView

_FLOAT = "float32"


def layers_of(blocks: Sequence[MemoryBlock], sidecar: Sidecar, top: Int64) -> Iterable[LayerMemory]:
    """What each module keeps, in the order in which they begin; `top` are the starts of the ops
    that lie in no other. The calls of a module that runs several times are added up; of the wrapper
    and the wrapped, both the whole model, the inner one is told."""
    at, saves = BlockAt(blocks), _saves(blocks, sidecar)
    calls: dict[str, list[Layer]] = {}
    for layer in sidecar.of(Layer):
        named = calls.setdefault(layer.module, [])
        if layer.module or not named:
            named.append(layer)
    inner = _Inner([call for named in calls.values() for call in named])
    read = _read_at_once(blocks, saves, inner, top)
    own: dict[str, int] = {}
    for block in blocks:
        if block.dtype == _FLOAT:
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


def _saves(blocks: Sequence[MemoryBlock], sidecar: Sidecar) -> Saves:
    at, found = BlockAt(blocks), dict[int, list[int]]()
    for saved in sidecar.of(Saved):
        row = at.find(saved.address, saved.saved_ns[0])
        if row != NONE:
            found.setdefault(row, []).extend(saved.saved_ns)
    return found


def _read_at_once(
    blocks: Sequence[MemoryBlock], saves: Saves, inner: "_Inner", top: Int64
) -> dict[str, int]:
    """By module, the most float32 bytes that one of its ops saved: its backward op reads them."""
    by_op: dict[tuple[str, int], set[int]] = {}
    for row, moments in saves.items():
        if blocks[row].dtype == _FLOAT:
            for at_ns in moments:
                op = int(np.searchsorted(top, at_ns, "right"))
                by_op.setdefault((inner.at(at_ns), op), set()).add(row)
    found: dict[str, int] = {}
    for (name, _), rows in by_op.items():
        found[name] = max(found.get(name, 0), sum(blocks[row].size_bytes for row in rows))
    return found


def _kept_in(
    call: Layer, blocks: Sequence[MemoryBlock], at: BlockAt, saves: Saves
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


def top_ops(seen: RankView) -> Int64:
    """When the training thread's ops begin that lie in no other."""
    events = seen.trace.events
    rows = np.flatnonzero((events.lane == seen.main_lane) & (events.category == Category.CPU_OP))
    start, end = events.start_ns[rows], events.end_ns[rows]
    if not len(rows):
        return start
    before = np.concatenate([[0], np.maximum.accumulate(end)[:-1]])
    return start[start >= before]
