"""split: one AllReduce into two collectives between which computation can move.

RS_AG: ReduceScatter then AllGather; needs a dim to scatter. REDUCE_BROADCAST: to a root and out
again. The last one keeps the AllReduce's name, so every reader stays as it is. Moves the same
bytes (ring) until `reorder` and `slice` use what it opened.
"""

from enum import Enum

from paceline.weave import ops
from paceline.weave.program import Program, Statement
from paceline.weave.rules import WeaveError
from paceline.weave.transforms.draft import Draft
from paceline.weave.transforms.refusal import Refusal, attempt, loose


class SplitInto(Enum):
    RS_AG = "reduce_scatter and all_gather"
    REDUCE_BROADCAST = "reduce_to and broadcast"


def split(
    program: Program,
    name: str,
    into: SplitInto = SplitInto.RS_AG,
    *,
    dim: int = 0,
    root: int = 0,
) -> Program | Refusal:
    """Split the AllReduce `name`. Refused: not an AllReduce, already fused, a number (nothing to
    scatter), a dim or root that is not there."""
    return attempt("split", lambda: _split(program, name, _pair(into, dim, root)))


Pair = tuple[ops.CollectiveOp, ops.CollectiveOp]


def _pair(into: SplitInto, dim: int, root: int) -> Pair:
    if into is SplitInto.RS_AG:
        return ops.ReduceScatter(dim), ops.AllGather()
    return ops.ReduceTo(root), ops.Broadcast(root)


def _split(program: Program, name: str, pair: Pair) -> Program:
    target = program[name]
    if not isinstance(target.op, ops.AllReduce):
        raise WeaveError(f"{name} is {target.op.word}; only an AllReduce can be split")
    loose(program, name)
    draft = Draft(program)
    for statement in program:
        if statement.name == name:
            _emit(draft, statement, pair)
        else:
            draft.keep(statement)
    return draft.finish()


def _emit(draft: Draft, statement: Statement, pair: Pair) -> None:
    first, second = pair
    part = draft.add(first, statement.args, f"{statement.name}_part", statement.line)
    draft.add(second, (part,), statement.name, statement.line)
