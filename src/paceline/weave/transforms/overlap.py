"""overlap: a producer and the collective that reads it run chunk by chunk, side by side.

While chunk i is communicated, chunk i + 1 is computed. Both must be cut along one dim without
changing what they give: rows of a MatMul's left operand, elements of pointwise work; any dim of an
AllReduce, any dim of a ReduceScatter or AllGather but the scattered one.
"""

from dataclasses import replace

from paceline.weave import ops
from paceline.weave.layout import Sliced
from paceline.weave.program import FusedGroup, Overlap, Program, Statement, check
from paceline.weave.rules import WeaveError
from paceline.weave.transforms.refusal import Refusal, attempt

_WHOLE = (ops.Reduce, ops.Repeat, ops.Update)
"""Ops that need their whole operand, or address it as a whole."""


def overlap(
    program: Program, producer: str, collective: str, *, chunks: int = 4, dim: int = 0
) -> Program | Refusal:
    """Overlap two launches. Refused: not launches; the collective does not read the producer; no
    collective in the second, or one in the first; already overlapped; a producer that cannot be
    cut along `dim`; a collective that scatters along `dim`; fewer than two chunks, or more than
    there are rows."""
    wish = Overlap(producer, collective, dim, chunks)
    return attempt("overlap", lambda: _overlap(program, wish))


def _overlap(program: Program, wish: Overlap) -> Program:
    first, second = _launch(program, wish.producer), _launch(program, wish.collective)
    for name in (wish.producer, wish.collective):
        if any(name in (o.producer, o.collective) for o in program.overlaps):
            raise WeaveError(f"{name} is already overlapped")
    if first.collectives:
        raise WeaveError(f"{first.name} is itself communication; the producer must only compute")
    if not second.collectives:
        raise WeaveError(f"{second.name} moves nothing between ranks; overlap needs a collective")
    if not any(s.name in first.members for s in second.inputs):
        raise WeaveError(f"{second.name} does not read {first.name}; they are independent already")
    _check_waits(program, first, second)
    rank = max(len(s.type.shape) for s in first.body)
    for statement in (*first.body, *second.body):
        if len(statement.type.shape) == rank or isinstance(statement.op, _WHOLE):
            _check_cut(program, statement, wish)  # what has fewer dims is read whole by each chunk
    return check(replace(program, overlaps=(*program.overlaps, wish)))


def _launch(program: Program, name: str) -> FusedGroup:
    for launch in program.launches():
        if launch.name == name:
            return launch
    found = ", ".join(launch.name for launch in program.launches())
    raise WeaveError(f"{name!r} is no launch of {program.name}; it has {found}")


def _check_waits(program: Program, first: FusedGroup, second: FusedGroup) -> None:
    """What the collective reads besides the producer must be there before the producer starts."""
    start = min(program.position(m) for m in first.members)
    for statement in second.inputs:
        late = not statement.is_source and program.position(statement.name) > start
        if late and statement.name not in first.members:
            raise WeaveError(
                f"a cycle: {second.name} also waits for {statement.name}, which comes after "
                f"{first.name}; name a launch that holds both"
            )


def _check_cut(program: Program, statement: Statement, wish: Overlap) -> None:
    shape = statement.type.shape
    if isinstance(statement.op, _WHOLE):
        word = ops.word_of(statement.op)
        raise WeaveError(f"{statement.name} ({word}) needs its whole operand; it cannot be cut")
    if not 0 <= wish.dim < len(shape):
        raise WeaveError(f"{statement.name} of shape {list(shape)} has no dim {wish.dim} to cut")
    if not 2 <= wish.chunks <= shape[wish.dim]:
        raise WeaveError(
            f"{wish.chunks} chunks of {shape[wish.dim]} rows of {statement.name}; give 2 to "
            f"{shape[wish.dim]}"
        )
    if isinstance(statement.op, ops.MatMul) and wish.dim == len(shape) - 1:
        raise WeaveError(f"{statement.name}: a MatMul is cut along rows, not along dim {wish.dim}")
    cut = statement.args[:1] if isinstance(statement.op, ops.MatMul) else statement.args
    kinds = (statement.type, *(program[a].type for a in cut))
    if any(k.layout == Sliced(wish.dim) and len(k.shape) == len(shape) for k in kinds):
        raise WeaveError(f"{statement.name} is sliced along dim {wish.dim}; cut another dim")
