"""Ready-made schedules of data-parallel programs, as compositions of the transformations."""

from paceline.weave import ops
from paceline.weave.program import Program
from paceline.weave.transforms import applied, fuse, reorder, slice_state, split


def scattered(program: Program) -> Program:
    """ReduceScatter, update of one's own slice, AllGather; optimizer state sliced."""
    states = tuple(
        s.name
        for s in program.inputs
        if isinstance(s.op, ops.Input) and s.op.role is ops.Role.STATE
    )
    program = applied(split(program, program.find(ops.AllReduce)[0]))
    program = applied(reorder(program, program.find(ops.AllGather)[0]))
    return applied(slice_state(program, *states)) if states else program


def fully_fused(program: Program) -> Program:
    """`scattered`, as one kernel."""
    return applied(fuse(scattered(program)))


def in_three(program: Program) -> Program:
    """`scattered`, as three kernels: the collectives and, between them, all arithmetic fused."""
    program = scattered(program)
    arithmetic = tuple(
        s.name
        for s in program
        if not s.is_source
        and not isinstance(s.op, ops.ReduceScatter | ops.AllGather)
        and not _after_gather(program, s.name)
    )
    return applied(fuse(program, arithmetic))


def _after_gather(program: Program, name: str) -> bool:
    return any(isinstance(program[a].op, ops.AllGather) for a in program[name].args)
