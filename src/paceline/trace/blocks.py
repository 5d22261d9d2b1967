"""Blocks of memory in the detail step of a recording, each with what it is for.

The allocator's events tell every block with its address; the recorder tells which addresses
autograd saved and which hold gradients. A step is taken to end as it began: a block that it leaves
behind stands for one that the next step gives back.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.graph import NONE, MemoryCategory
from paceline.record.sidecar import Gradient, Saved, Sidecar, Step
from paceline.trace.trace import Allocations

NEVER = 1 << 62


@dataclass(frozen=True)
class MemoryBlock:
    """Memory between its allocation and its release; `born_ns` 0 and `died_ns` NEVER are outside
    the step."""

    address: int
    size_bytes: int
    device: int
    lane: int
    born_ns: int = 0
    died_ns: int = NEVER
    category: MemoryCategory = MemoryCategory.TEMPORARY
    dtype: str = ""  # of what was saved in it


def blocks_of(events: Allocations, step: Step) -> list[MemoryBlock]:
    """All blocks that were taken or given back within the step, in order of birth."""
    alive: dict[tuple[int, int], MemoryBlock] = {}
    found: list[MemoryBlock] = []
    rows = zip(*(getattr(events, name).tolist() for name in
                 ("at_ns", "lane", "address", "delta_bytes", "device")))  # fmt: skip
    for at, lane, address, delta, device in rows:
        if not step.begin_ns <= at < step.end_ns or not delta:
            continue
        if delta > 0:
            alive[device, address] = MemoryBlock(address, delta, device, lane, born_ns=at)
            continue
        born = alive.pop((device, address), MemoryBlock(address, -delta, device, lane))
        found.append(replace(born, died_ns=at))
    return sorted([*found, *alive.values()], key=lambda block: block.born_ns)


class BlockAt:
    """Blocks by address, to ask which one was there at a moment."""

    def __init__(self, blocks: Sequence[MemoryBlock]) -> None:
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


def labelled(blocks: Sequence[MemoryBlock], sidecar: Sidecar) -> list[MemoryBlock]:
    """Each with its category; blocks that are neither saved nor a gradient are temporary."""
    found, at = list(blocks), BlockAt(blocks)
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


def settled(blocks: Sequence[MemoryBlock], sidecar: Sidecar, step: Step) -> list[MemoryBlock]:
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
    at, freed = BlockAt(blocks), dict[int, int]()
    for gradient in sidecar.of(Gradient):
        freed[at.find(gradient.address, gradient.ready_ns)] = gradient.freed_ns
    older: list[MemoryBlock] = []
    for row in (row for rows in left.values() for row in rows):
        if freed.get(row):
            older.append(replace(blocks[row], born_ns=0, died_ns=freed[row]))
        else:
            found[row] = replace(blocks[row], died_ns=step.end_ns)
    return [*older, *(found[row] for row in sorted(found))]


def _outliving(blocks: Sequence[MemoryBlock]) -> dict[int, list[int]]:
    """Rows of the blocks that outlive the step, by size; gradients last."""
    left: dict[int, list[int]] = {}
    for row, block in enumerate(blocks):
        if block.died_ns == NEVER:
            left.setdefault(block.size_bytes, []).append(row)
    for rows in left.values():
        rows.sort(key=lambda row: blocks[row].category is MemoryCategory.GRADIENTS)
    return left
