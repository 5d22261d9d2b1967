"""Schedules of a program: every chain of transformations worth trying, applied or refused.

A schedule has a name, the program that it makes, or the reason why it makes none. The names are
CoCoNet's: AR-C is AllReduce then computation, RS-C-AG scatters, computes on slices and gathers,
`sharded` keeps state in slices, `fused` runs it as one kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass

from paceline.weave import ops
from paceline.weave.program import Program
from paceline.weave.rules import WeaveError
from paceline.weave.transforms import (
    Refusal,
    SplitInto,
    applied,
    fuse,
    overlap,
    p2p,
    reorder,
    slice_state,
    split,
)
from paceline.weave.transforms.fuse import FUSABLE

Made = Program | Refusal


@dataclass(frozen=True)
class Schedule:
    """A named way to run a program; `made` is the program, or why there is none."""

    name: str
    made: Made

    @property
    def program(self) -> Program:
        return applied(self.made)


def schedules(written: Program) -> tuple[Schedule, ...]:
    """All schedules, the program as written first."""
    found = [Schedule(name, _tried(name, make, written)) for name, make in _MAKERS.items()]
    return tuple(found)


def schedule(written: Program, name: str) -> Schedule:
    """The schedule of that name."""
    if name not in _MAKERS:
        raise WeaveError(f"no schedule {name!r}; there are {', '.join(_MAKERS)}")
    return Schedule(name, _tried(name, _MAKERS[name], written))


def scattered(written: Program) -> Program:
    """ReduceScatter, computation on this rank's slice, AllGather; state, where there is any, in
    slices too."""
    state = [s for s in written.inputs if s.op == ops.Input(ops.Role.STATE)]
    return applied(_sharded(written) if state else _scattered(written))


def fully_fused(written: Program) -> Program:
    """`scattered`, as one kernel."""
    return applied(fuse_all(scattered(written)))


def in_three(written: Program) -> Program:
    """`scattered`, as three launches: the collectives and, between them, one kernel."""
    return applied(_between_fused(scattered(written)))


def _tried(name: str, make: Callable[[Program], Made], written: Program) -> Made:
    try:
        return make(written)
    except WeaveError as error:
        return Refusal(name, str(error))


def largest_sum(program: Program) -> str:
    """The AllReduce of the largest tensor: what the transformations start from."""
    sums = program.find(ops.AllReduce)
    if not sums:
        raise WeaveError(f"{program.name} has no AllReduce")
    return max(sums, key=lambda name: program[name].type.size)


def _as_written(program: Program) -> Made:
    return program


def _ar_fused(program: Program) -> Made:
    """The computation after the AllReduce as one kernel, replicated on every rank."""
    return fuse(program, _fusable(program, ops.CollectiveOp))


def fuse_all(program: Program) -> Made:
    """All that a kernel can hold, collectives included."""
    return fuse(program, _fusable(program))


def _between_fused(program: Program) -> Made:
    """What lies between scatter and gather as one kernel, the joining of norms included; what is
    stored from a gather waits."""
    after = {s.name for s in program if any(_is_gather(program, a) for a in s.args)}
    members = _fusable(program, ops.ReduceScatter, ops.AllGather)
    return fuse(program, tuple(m for m in members if m not in after))


def _is_gather(program: Program, name: str) -> bool:
    return isinstance(program[name].op, ops.AllGather)


def _fusable(program: Program, *but: type[ops.WeaveOp]) -> tuple[str, ...]:
    return tuple(s.name for s in program if isinstance(s.op, FUSABLE) and not isinstance(s.op, but))


def _rooted(program: Program) -> Made:
    return split(program, largest_sum(program), SplitInto.REDUCE_BROADCAST)


def _scattered(program: Program, dim: int = 0) -> Made:
    name = largest_sum(program)
    return reorder(applied(split(program, name, dim=dim)), name)


def _sharded(program: Program) -> Made:
    return slice_all(applied(_scattered(program)))


def slice_all(program: Program) -> Made:
    """All state in slices."""
    state = [s.name for s in program.inputs if s.op == ops.Input(ops.Role.STATE)]
    if not state:
        raise WeaveError(f"{program.name} has no state to keep in slices")
    return slice_state(program, *state)


def _handed(program: Program) -> Made:
    """Computation on slices, slices sent, the next group gathers."""
    sends = program.find(ops.Send)
    if not sends:
        raise WeaveError(f"{program.name} has no Send")
    return p2p(applied(_scattered(program)), sends[0])


def overlap_product(program: Program) -> Made:
    """The product's rows are summed while the next are computed."""
    product = _product(program)
    readers = program.readers(product)
    if len(readers) != 1:
        raise WeaveError(f"{product} has {len(readers)} readers; its AllReduce must be the one")
    return overlap(program, product, readers[0].name, chunks=_chunks(program, product))


def _overlapped_with_fused(program: Program) -> Made:
    """The product's rows beside one kernel that scatters columns, computes and gathers."""
    product = _product(program)
    columns = len(program[product].type.shape) - 1
    fused = applied(fuse_all(applied(_scattered(program, columns))))
    return overlap(fused, product, "fused", chunks=_chunks(program, product))


def _product(program: Program) -> str:
    products = program.find(ops.MatMul)
    if not products:
        raise WeaveError(f"{program.name} has no MatMul to overlap with")
    return products[0]


def _chunks(program: Program, product: str) -> int:
    """Eight, or a chunk a row where there are fewer."""
    return min(8, program[product].type.shape[0])


_MAKERS: dict[str, Callable[[Program], Made]] = {
    "AR-C": _as_written,
    "AR-fused(C)": _ar_fused,
    "R-B-C": _rooted,
    "RS-C-AG": _scattered,
    "RS-C-AG sharded": _sharded,
    "RS-fused(C)-AG": lambda p: _between_fused(applied(_scattered(p))),
    "RS-fused(C)-AG sharded": lambda p: _between_fused(applied(_sharded(p))),
    "fused(RS-C-AG)": lambda p: fuse_all(applied(_scattered(p))),
    "fused(RS-C-AG) sharded": lambda p: fuse_all(applied(_sharded(p))),
    "RS-C-P2P-AG": _handed,
    "overlap(MM, AR)": overlap_product,
    "overlap(MM, fused(RS-C-AG))": _overlapped_with_fused,
}
