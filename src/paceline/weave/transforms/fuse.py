"""fuse: statements become one kernel, so that values between them never touch memory.

The kernel runs as one launch: its collectives stand at its border (ReduceScatter or AllReduce in,
AllGather out) or join numbers in its middle (the norms of LAMB).
"""

from dataclasses import replace

from paceline.weave import ops
from paceline.weave.layout import Partial, Sliced, TensorType
from paceline.weave.program import Kernel, Program, Statement, check
from paceline.weave.rules import WeaveError, broadcast_shape
from paceline.weave.transforms.order import in_launch_order
from paceline.weave.transforms.refusal import Refusal, attempt, loose

FUSABLE = (
    *ops.POINTWISE,
    ops.Dropout,
    ops.Reduce,
    ops.Repeat,
    ops.Slice,
    ops.Update,
    ops.AllReduce,
    ops.ReduceScatter,
    ops.AllGather,
)


def fuse(
    program: Program, members: tuple[str, ...] | None = None, name: str = "fused"
) -> Program | Refusal:
    """Fuse `members` (by default all statements) into one kernel.

    Refused: fewer than two; something already fused, or an input; an op that no kernel can hold
    (MatMul, Send, AllToAll, Broadcast); two groups; slices along different dims or of different
    extents (mixed layouts); arithmetic on Partial parts after a collective; a missing middle op;
    a cycle through another kernel.
    """
    return attempt("fuse", lambda: _fuse(program, members, name))


def between(program: Program, first: str, last: str) -> tuple[str, ...]:
    """Every statement on a path from `first` to `last`, and pointwise work that only they read:
    what to name in `fuse`."""
    below, inside = _closure(program, first), {program[last].name}
    for statement in reversed(program.statements):
        if statement.name in inside:
            inside |= {a for a in statement.args if a in below}
    for statement in reversed(program.statements):
        readers = {r.name for r in program.readers(statement.name)}
        serves = bool(readers) and readers <= inside and statement.name not in program.outputs
        if serves and isinstance(statement.op, (*ops.POINTWISE, ops.Dropout, ops.Slice)):
            inside.add(statement.name)
    return tuple(s.name for s in program if s.name in inside)


def _fuse(program: Program, named: tuple[str, ...] | None, name: str) -> Program:
    everything = tuple(s.name for s in program if not s.is_source)
    wanted = everything if named is None else named
    members = tuple(sorted(dict.fromkeys(wanted), key=program.position))
    if len(members) < 2:
        raise WeaveError(f"{list(members)} is nothing to fuse; name two statements at least")
    body = tuple(program[m] for m in members)
    for statement in body:
        _check_member(program, statement)
    _check_one_group(body)
    _check_one_cut(body)
    if any(k.name == name for k in program.kernels) or name in program:
        raise WeaveError(f"the name {name!r} is taken; pass another")
    _check_convex(program, members)
    kernels = (*program.kernels, Kernel(name, members))
    return check(in_launch_order(replace(program, kernels=kernels)))


def _check_member(program: Program, statement: Statement) -> None:
    loose(program, statement.name)
    if statement.is_source:
        raise WeaveError(f"{statement.name} is an input or a constant, which no kernel computes")
    if not isinstance(statement.op, FUSABLE):
        hint = "overlap it instead" if isinstance(statement.op, ops.MatMul) else "leave it out"
        raise WeaveError(f"a kernel cannot hold {statement.name} ({statement.op.word}); {hint}")
    computes_on_parts = isinstance(statement.op, ops.POINTWISE) and any(
        isinstance(program[a].type.layout, Partial) and not program[a].is_source
        for a in statement.args
    )
    if computes_on_parts:
        raise WeaveError(
            f"{statement.name} computes on Partial parts; reduce them first, then fuse from there"
        )


def _check_one_group(body: tuple[Statement, ...]) -> None:
    groups = {s.type.group for s in body if s.type.group is not None}
    if len(groups) > 1:
        shown = " and ".join(sorted(str(g) for g in groups))
        raise WeaveError(f"members live in {shown}; a kernel runs in one group")


def _check_one_cut(body: tuple[Statement, ...]) -> None:
    """All slices are cut alike, so that one loop over a rank's part serves them all."""
    sliced = tuple(s.type for s in body if isinstance(s.type.layout, Sliced))
    if len({_cut(t) for t in sliced}) > 1:
        shown = ", ".join(sorted({f"dim {_dim(t)} of {list(t.shape)}" for t in sliced}))
        raise WeaveError(f"mixed layouts: members are sliced along {shown}; fuse each alone")
    if sliced:
        broadcast_shape(sliced)


def _cut(kind: TensorType) -> tuple[int, int]:
    """Which dim is sliced, counted from the right as shapes are aligned, and its extent."""
    return _dim(kind) - len(kind.shape), kind.shape[_dim(kind)]


def _dim(kind: TensorType) -> int:
    assert isinstance(kind.layout, Sliced)
    return kind.layout.dim


def _check_convex(program: Program, members: tuple[str, ...]) -> None:
    """No path leaves the kernel and comes back."""
    inside, tainted = set(members), set[str]()
    for statement in program:
        reads = set(statement.args)
        if statement.name not in inside:
            if reads & (inside | tainted):
                tainted.add(statement.name)
        elif back := sorted(reads & tainted):
            raise WeaveError(
                f"{back[0]} stands between members ({statement.name} reads it); fuse it too"
            )


def _closure(program: Program, root: str) -> set[str]:
    found = {program[root].name}
    for statement in program:
        if found & set(statement.args):
            found.add(statement.name)
    return found
