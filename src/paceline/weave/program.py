"""`Program`: statements in order, what they update and return, and how they are launched.

A program is a value. `statements` are in an order in which they may run. `kernels` name the
statements that run as one launch (a fused group), `overlaps` the launches that run chunk by chunk
beside each other. Everything not named runs on its own. A back end walks `program.launches()`;
a fused group shows itself as a `FusedGroup`: inputs with layouts, body in order, the collectives
in it, what it must leave in memory, and what it updates in place.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from paceline.weave import ops
from paceline.weave.layout import Group, TensorType
from paceline.weave.rules import WeaveError


@dataclass(frozen=True)
class Statement:
    """`name = op(args)`, with the type of its result and the line of the user that wrote it."""

    name: str
    op: ops.WeaveOp
    args: tuple[str, ...]
    type: TensorType
    line: str = ""

    @property
    def is_source(self) -> bool:
        return isinstance(self.op, ops.Input | ops.Const)

    def __str__(self) -> str:
        settings = [f"{k}={v}" for k, v in vars(self.op).items() if not isinstance(v, Enum)]
        return f"{self.name} = {ops.word_of(self.op)}({', '.join([*self.args, *settings])})"


@dataclass(frozen=True)
class Kernel:
    """Statements that run as one launch."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Overlap:
    """`producer` and `collective` (launch names) run in `chunks` along `dim`, side by side."""

    producer: str
    collective: str
    dim: int = 0
    chunks: int = 4


@dataclass(frozen=True)
class Program:
    """Computation and communication of all ranks, as one frozen value."""

    name: str
    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]  # what the caller wants: Updates and returned values
    kernels: tuple[Kernel, ...] = ()
    overlaps: tuple[Overlap, ...] = ()

    def __getitem__(self, name: str) -> Statement:
        if name not in self._index:
            raise WeaveError(f"{self.name} has no {name!r}; it has {', '.join(self._index)}")
        return self.statements[self._index[name]]

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.statements)

    def find(self, kind: type[ops.WeaveOp]) -> tuple[str, ...]:
        """Names of all statements of one kind of op, in order."""
        return tuple(s.name for s in self if isinstance(s.op, kind))

    def position(self, name: str) -> int:
        return self._index[self[name].name]

    def readers(self, name: str) -> tuple[Statement, ...]:
        """Statements that read `name`, in order."""
        return self._readers.get(name, ())

    @cached_property
    def inputs(self) -> tuple[Statement, ...]:
        return tuple(s for s in self if isinstance(s.op, ops.Input))

    @cached_property
    def updates(self) -> tuple[Statement, ...]:
        return tuple(s for s in self if isinstance(s.op, ops.Update))

    @cached_property
    def returns(self) -> tuple[str, ...]:
        """Outputs that are values handed back, not in-place updates."""
        return tuple(n for n in self.outputs if not isinstance(self[n].op, ops.Update))

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        return tuple(dict.fromkeys(s.type.group for s in self if s.type.group is not None))

    @cached_property
    def world(self) -> tuple[int, ...]:
        """Every global rank that takes part, ascending."""
        return tuple(sorted({r for g in self.groups for r in g.ranks}))

    def launches(self) -> tuple["FusedGroup", ...]:
        """What runs, in order: fused groups and single statements (sources run nothing)."""
        done: set[str] = set()
        found = []
        for statement in self:
            members = self._launch_of.get(statement.name, (statement.name,))
            if statement.is_source or statement.name in done:
                continue
            done |= set(members)
            found.append(FusedGroup(self, self._kernel_names.get(members, members[0]), members))
        return tuple(found)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {s.name: i for i, s in enumerate(self.statements)}

    @cached_property
    def _readers(self) -> dict[str, tuple[Statement, ...]]:
        found: dict[str, list[Statement]] = {}
        for statement in self:
            for name in dict.fromkeys(statement.args):
                found.setdefault(name, []).append(statement)
        return {k: tuple(v) for k, v in found.items()}

    @cached_property
    def _launch_of(self) -> dict[str, tuple[str, ...]]:
        return {m: k.members for k in self.kernels for m in k.members}

    @cached_property
    def _kernel_names(self) -> dict[tuple[str, ...], str]:
        return {k.members: k.name for k in self.kernels}

    def __str__(self) -> str:
        shown = [s for s in self if not isinstance(s.op, ops.Const)]
        lines = [f"program {self.name}:", *(f"    {self._shown(s):60} # {s.type}" for s in shown)]
        lines += [f"    kernel {k.name}: {' '.join(k.members)}" for k in self.kernels]
        lines += [
            f"    overlap {o.producer} with {o.collective}: {o.chunks} chunks along dim {o.dim}"
            for o in self.overlaps
        ]
        return "\n".join([*lines, f"    return {', '.join(self.outputs)}"])

    def _shown(self, statement: Statement) -> str:
        """A statement with its constants in place."""
        ops_of = {a: self[a].op for a in statement.args}
        values = {a: f"{op.value:g}" for a, op in ops_of.items() if isinstance(op, ops.Const)}
        return str(replace(statement, args=tuple(values.get(a, a) for a in statement.args)))


@dataclass(frozen=True)
class FusedGroup:
    """A launch: one or more statements that a back end runs as one function."""

    program: Program
    name: str
    members: tuple[str, ...]

    @cached_property
    def body(self) -> tuple[Statement, ...]:
        """The members in order; constants that they read are `inputs`."""
        return tuple(self.program[m] for m in self.members)

    @cached_property
    def inputs(self) -> tuple[Statement, ...]:
        """Statements outside whose values the body reads: buffers, scalars, constants."""
        names = dict.fromkeys(a for s in self.body for a in s.args if a not in self.members)
        return tuple(self.program[n] for n in names)

    @cached_property
    def collectives(self) -> tuple[Statement, ...]:
        return tuple(s for s in self.body if isinstance(s.op, ops.CollectiveOp))

    @cached_property
    def updates(self) -> tuple[Statement, ...]:
        """In-place stores: args are (the input's name, the value's name)."""
        return tuple(s for s in self.body if isinstance(s.op, ops.Update))

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Values, other than updates, that others read: they must be left in memory."""
        wanted = set(self.program.outputs)
        return tuple(
            s.name
            for s in self.body
            if not isinstance(s.op, ops.Update)
            and (s.name in wanted or any(r.name not in self.members for r in self._readers(s)))
        )

    @property
    def is_fused(self) -> bool:
        return len(self.members) > 1

    def _readers(self, statement: Statement) -> tuple[Statement, ...]:
        return self.program.readers(statement.name)


def check(program: Program) -> Program:
    """The law of programs: names once, operands before readers, no read of an overwritten input,
    one Update an input, kernels and overlaps that name what is there. Returns the program."""
    seen: dict[str, Statement] = {}
    overwritten: dict[str, Statement] = {}
    for statement in program:
        if statement.name in seen:
            raise WeaveError(f"{statement.line}: the name {statement.name!r} is used twice")
        _check_operands(statement, seen, overwritten)
        if isinstance(statement.op, ops.Update):
            overwritten[statement.args[0]] = statement
        seen[statement.name] = statement
    _check_names(program, seen)
    return program


def _check_operands(
    statement: Statement, seen: dict[str, Statement], overwritten: dict[str, Statement]
) -> None:
    for name in statement.args:
        if name not in seen:
            raise WeaveError(f"{statement.line}: {statement.name} reads {name!r} too early")
        if name in overwritten:
            raise WeaveError(
                f"{statement.line}: {statement.name} reads {name!r}, which the Update at "
                f"{overwritten[name].line} has overwritten; read that Update's result"
            )
    if isinstance(statement.op, ops.Update) and not isinstance(
        seen[statement.args[0]].op, ops.Input
    ):
        raise WeaveError(f"{statement.line}: Update of {statement.args[0]!r}, which is no input")


def _check_names(program: Program, seen: dict[str, Statement]) -> None:
    for name in program.outputs:
        if name not in seen:
            raise WeaveError(f"{program.name} returns {name!r}, which it does not compute")
    taken = [m for k in program.kernels for m in k.members]
    if len(set(taken)) != len(taken):
        raise WeaveError(f"{program.name}: a statement stands in two kernels")
    if missing := [m for m in taken if m not in seen]:
        raise WeaveError(f"{program.name}: kernels name {missing}, which the program lacks")
    launches = {launch.name for launch in program.launches()}
    for overlap in program.overlaps:
        if missing := [n for n in (overlap.producer, overlap.collective) if n not in launches]:
            raise WeaveError(f"{program.name}: an overlap names {missing}, which is no launch")
