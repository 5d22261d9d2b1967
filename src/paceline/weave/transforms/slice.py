"""slice: each rank keeps only its slice of optimizer state (ZeRO stage 1).

A Replicated state tensor that is only ever read through Slice, and only stored from an AllGather
of a slice, need not be whole anywhere: its type becomes Sliced, the Slices and the gathers for it
go away.
"""

from dataclasses import replace

from paceline.weave import ops
from paceline.weave.layout import Replicated, Sliced
from paceline.weave.program import Program, Statement
from paceline.weave.rules import WeaveError
from paceline.weave.transforms.dead import without_unused
from paceline.weave.transforms.draft import Draft
from paceline.weave.transforms.refusal import Refusal, attempt


def slice_state(program: Program, *names: str) -> Program | Refusal:
    """Shard these inputs. Refused: not an input; not state (the model reads parameters whole);
    not Replicated; read other than through Slice, or along two dims; stored from what is no
    AllGather; its new value read whole; already fused."""
    return attempt("slice", lambda: _slice_all(program, names))


def _slice_all(program: Program, names: tuple[str, ...]) -> Program:
    if not names:
        raise WeaveError("no tensor was named; name state inputs, for example 'm', 'v'")
    if program.kernels or program.overlaps:
        raise WeaveError("the program is already fused or overlapped; slice before that")
    for name in names:
        program = _slice_one(program, program[name])
    return without_unused(program)


def _slice_one(program: Program, target: Statement) -> Program:
    dim = _dim(program, target)
    draft, alias = Draft(program), dict[str, str]()
    for statement in program:
        args = tuple(alias.get(a, a) for a in statement.args)
        if statement.name == target.name:
            draft.input(statement, replace(statement.type, layout=Sliced(dim)))
        elif statement.args == (target.name,):
            alias[statement.name] = target.name
        elif isinstance(statement.op, ops.Update) and statement.args[0] == target.name:
            draft.keep(statement, (target.name, _part(program, statement, alias)))
        else:
            draft.keep(statement, args)
    return draft.finish()


def _part(program: Program, update: Statement, alias: dict[str, str]) -> str:
    part = program[update.args[1]].args[0]
    return alias.get(part, part)


def _dim(program: Program, target: Statement) -> int:
    """The dim that every use agrees on; raises where a use needs the whole."""
    if not isinstance(target.op, ops.Input) or target.op.role is not ops.Role.STATE:
        raise WeaveError(f"{target.name} is no state input; parameters are read whole by the model")
    if target.type.layout != Replicated():
        raise WeaveError(f"{target.name} is {target.type.layout}; only Replicated can be sliced")
    dims = {_dim_of_use(program, target, r) for r in program.readers(target.name)}
    if len(dims) != 1:
        found = f"sliced along dims {sorted(dims)}" if dims else "never read"
        raise WeaveError(f"{target.name} is {found}; it must be read through Slice of one dim")
    return dims.pop()


def _dim_of_use(program: Program, target: Statement, reader: Statement) -> int:
    if isinstance(reader.op, ops.Slice):
        return reader.op.dim
    if not isinstance(reader.op, ops.Update) or reader.args[0] != target.name:
        raise WeaveError(f"{reader.name} reads the whole of {target.name}; reorder it first")
    if users := program.readers(reader.name):
        raise WeaveError(f"{users[0].name} reads the whole new {target.name}; reorder it first")
    value = program[reader.args[1]]
    layout = program[value.args[0]].type.layout if value.args else None
    if not isinstance(value.op, ops.AllGather) or not isinstance(layout, Sliced):
        raise WeaveError(f"{reader.name} stores {value.name}, which is no AllGather of a slice")
    return layout.dim
