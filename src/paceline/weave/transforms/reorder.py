"""reorder: computation moves before an AllGather and runs on slices.

Each member computes on this rank's slice; Replicated operands that span the sliced dim are
sliced; what others still need whole is gathered after. Reductions get their cross-rank fix-up
(an AllReduce of the slices' results); so do reductions of other whole tensors of the same shape,
for each rank to read its slice only (the norm of the weights in LAMB). Dropout draws by global
element, so its numbers stay. An Update stores the gathered value, until `slice` shards its target.
"""

from paceline.weave import ops
from paceline.weave.layout import Partial, Replicated, Sliced
from paceline.weave.program import Program, Statement
from paceline.weave.rules import WeaveError
from paceline.weave.transforms.dead import without_unused
from paceline.weave.transforms.draft import Draft
from paceline.weave.transforms.refusal import Refusal, attempt, loose

UNASKED = (*ops.POINTWISE, ops.Dropout, ops.Reduce, ops.Repeat, ops.Update)
"""Ops that give the same on slices."""

MOVABLE = (*UNASKED, ops.MatMul)
"""Ops that may, where their types say so."""


def reorder(
    program: Program, gather: str, members: tuple[str, ...] | None = None
) -> Program | Refusal:
    """Move `members` (by default everything movable that depends on it) before the AllGather.

    Refused: not an AllGather; nothing to move; a member that does not depend on it; a missing
    middle op; an op that is not slice-invariant; a Partial operand; operands sliced along
    different dims; anything already fused.
    """
    return attempt("reorder", lambda: _reorder(program, gather, members))


def _reorder(program: Program, gather: str, named: tuple[str, ...] | None) -> Program:
    if not isinstance(program[gather].op, ops.AllGather):
        raise WeaveError(f"{gather} is {program[gather].op.word}; it must be an AllGather")
    members = _movable(program, gather) if named is None else _checked(program, gather, named)
    if not members:
        raise WeaveError(f"no computation that could run on slices reads {gather}")
    for name in (gather, *members):
        loose(program, name)
    return _Move(program, gather, frozenset(members)).run()


def _movable(program: Program, gather: str) -> tuple[str, ...]:
    """Everything that depends on the gather through pointwise ops, reductions and Updates of
    whole tensors, and reductions of other whole tensors of its shape; products only when named."""
    reached, found = {gather}, []
    for statement in program:
        kinds = [program[a].type for a in statement.args]
        whole = all(isinstance(k.layout, Replicated) for k in kinds)
        depends = bool(reached & set(statement.args))
        if isinstance(statement.op, UNASKED) and whole and depends:
            reached.add(statement.name)
        if (isinstance(statement.op, UNASKED) and whole and depends) or _sharable(
            program, gather, statement
        ):
            found.append(statement.name)
    return tuple(found) if len(reached) > 1 else ()


def _sharable(program: Program, gather: str, statement: Statement) -> bool:
    """A reduction to numbers of a whole tensor like the gathered one: each rank takes its slice."""
    if not isinstance(statement.op, ops.Reduce) or statement.op.dim is not None:
        return False
    kind, like = program[statement.args[0]].type, program[gather].type
    return (kind.shape, kind.layout, kind.group) == (like.shape, Replicated(), like.group)


def _checked(program: Program, gather: str, named: tuple[str, ...]) -> tuple[str, ...]:
    """The members in program order, closed towards the gather."""
    inside, below = {gather, *named}, _descendants(program, gather)
    for name in sorted(named, key=program.position):
        statement = program[name]
        if not isinstance(statement.op, MOVABLE):
            raise WeaveError(f"{name} ({ops.word_of(statement.op)}) is not slice-invariant")
        if name not in below and not _sharable(program, gather, statement):
            raise WeaveError(f"{name} does not depend on {gather}; there is nothing to move past")
        between = [a for a in statement.args if a in below and a not in inside]
        if between:
            raise WeaveError(
                f"{between[0]} stands between {gather} and {name}; name it as a member too"
            )
        for operand in statement.args:
            if isinstance(program[operand].type.layout, Partial):
                raise WeaveError(f"{name} reads {operand}, which is Partial; reduce it first")
    return tuple(sorted(named, key=program.position))


def _descendants(program: Program, root: str) -> set[str]:
    found = {root}
    for statement in program:
        if found & set(statement.args):
            found.add(statement.name)
    return found - {root}


class _Move:
    """The rewriting: `sliced` names, for each moved value, its slice in the draft."""

    def __init__(self, program: Program, gather: str, members: frozenset[str]) -> None:
        self._program, self._gather, self._members = program, gather, members
        self._draft = Draft(program)
        self._sliced: dict[str, str] = {}

    def run(self) -> Program:
        for statement in self._program:
            if statement.name == self._gather:
                self._start(statement)
            elif statement.name in self._members:
                self._move(statement)
            else:
                self._draft.keep(statement)
        return without_unused(self._draft.finish())

    def _start(self, gather: Statement) -> None:
        self._sliced[gather.name] = gather.args[0]
        if self._needed_whole(gather):
            self._draft.keep(gather)

    def _needed_whole(self, statement: Statement) -> bool:
        """Does anyone but members read it, or the caller?"""
        outside = [r for r in self._program.readers(statement.name) if r.name not in self._members]
        return bool(outside) or statement.name in self._program.outputs

    def _move(self, statement: Statement) -> None:
        if _sharable(self._program, self._gather, statement):
            self._compute(statement)
        elif not any(a in self._sliced for a in statement.args):
            self._draft.keep(statement)
        elif isinstance(statement.op, ops.Update):
            self._store(statement)
        else:
            self._compute(statement)

    def _store(self, statement: Statement) -> None:
        """The update itself takes the whole; readers of its result go on with the slice."""
        target, value = statement.args
        part = self._sliced[value]
        self._draft.keep(statement, (target, self._draft.gather(part, value, statement.line)))
        self._sliced[statement.name] = part

    def _compute(self, statement: Statement) -> None:
        args = self._operands(statement)
        part = self._draft.add(statement.op, args, f"{statement.name}_s", statement.line)
        layout = self._draft.type(part).layout
        if isinstance(layout, Partial):
            if not isinstance(statement.op, ops.Reduce):
                raise WeaveError(f"{statement.name} on slices is {layout}: not slice-invariant")
            self._draft.add(ops.AllReduce(), (part,), statement.name, statement.line)
            return
        if not isinstance(layout, Sliced):
            raise WeaveError(f"{statement.name} on slices is {layout}: not slice-invariant")
        self._sliced[statement.name] = part
        if self._needed_whole(statement):
            self._draft.gather(part, statement.name, statement.line)

    def _operands(self, statement: Statement) -> tuple[str, ...]:
        """Slices of what was moved, and of what spans the same dim; the rest whole."""
        if isinstance(statement.op, ops.MatMul | ops.Reduce):
            return tuple(self._part(a, statement) for a in statement.args)
        shape, dim, line = statement.type.shape, self._dim(statement), statement.line
        return tuple(
            self._sliced[a] if a in self._sliced else self._draft.slice_as(a, shape, dim, line)
            for a in statement.args
        )

    def _part(self, name: str, reader: Statement) -> str:
        """The slice of an operand of a product (where it moved) or of a reduction."""
        if name in self._sliced or isinstance(reader.op, ops.MatMul):
            return self._sliced.get(name, name)
        return self._draft.slice(name, self._home_dim, reader.line)

    @property
    def _home_dim(self) -> int:
        layout = self._program[self._program[self._gather].args[0]].type.layout
        assert isinstance(layout, Sliced)
        return layout.dim

    def _dim(self, statement: Statement) -> int:
        """The dim of the result that the moved operands are sliced along."""
        dims = set()
        for name in statement.args:
            if name in self._sliced:
                kind = self._draft.type(self._sliced[name])
                assert isinstance(kind.layout, Sliced)
                dims.add(kind.layout.dim + len(statement.type.shape) - len(kind.shape))
        if len(dims) > 1:
            raise WeaveError(
                f"{statement.name} would mix layouts: slices along dims {sorted(dims)}"
            )
        return dims.pop()
