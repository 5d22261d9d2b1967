"""`Draft`: a program being rewritten, statement by statement, typed as it grows."""

from collections.abc import Iterable
from dataclasses import replace

from paceline.weave import ops
from paceline.weave.layout import Replicated, Shape, Sliced, TensorType
from paceline.weave.program import Program, Statement, check
from paceline.weave.rules import WeaveError, result_type, spans


class Draft:
    """Collects the statements of a new version of `program`; `finish` freezes and checks it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._made: dict[str, Statement] = {}
        self._slices: dict[tuple[str, int], str] = {}
        self._gathers: dict[str, str] = {}

    def type(self, name: str) -> TensorType:
        return self._made[name].type

    def keep(self, statement: Statement, args: Iterable[str] | None = None) -> str:
        """The statement with other operands, typed anew."""
        names = tuple(statement.args if args is None else args)
        kind = statement.type
        if not statement.is_source:
            kind = self._typed(statement.op, names, statement.name)
        self._made[statement.name] = replace(statement, args=names, type=kind)
        return statement.name

    def input(self, statement: Statement, kind: TensorType) -> str:
        """An input with another type."""
        self._made[statement.name] = replace(statement, type=kind)
        return statement.name

    def add(self, op: ops.WeaveOp, args: tuple[str, ...], name: str, line: str = "") -> str:
        """A new statement; its name gets a number where it is taken."""
        name = self._fresh(name)
        self._made[name] = Statement(name, op, args, self._typed(op, args, name), line)
        return name

    def slice(self, name: str, dim: int, line: str = "") -> str:
        """This rank's part of a Replicated value: what an AllGather put together is not cut again,
        pointwise work moves onto slices, and nothing is cut twice."""
        made = self._made[name]
        if isinstance(made.op, ops.AllGather) and self.type(made.args[0]).layout == Sliced(dim):
            return made.args[0]
        if (name, dim) not in self._slices:
            op, args = self._cut(made, dim, line)
            self._slices[name, dim] = self.add(op, args, f"{name}_s", line)
        return self._slices[name, dim]

    def _cut(self, made: Statement, dim: int, line: str) -> tuple[ops.WeaveOp, tuple[str, ...]]:
        """Pointwise work is done on slices of its operands; anything else is sliced itself."""
        if not isinstance(made.op, (*ops.POINTWISE, ops.Dropout)):
            return ops.Slice(dim), (made.name,)
        shape = made.type.shape
        return made.op, tuple(self.slice_as(a, shape, dim, line) for a in made.args)

    def slice_as(self, name: str, shape: Shape, dim: int, line: str) -> str:
        """An operand of something of `shape` that is sliced along `dim`: cut where it spans it."""
        own = self.type(name).shape
        if isinstance(self.type(name).layout, Sliced) or not spans(own, shape, dim):
            return name
        return self.slice(name, dim - len(shape) + len(own), line)

    def gather(self, name: str, wish: str, line: str = "") -> str:
        """The whole of a Sliced value, gathered once; called `wish` where that is free."""
        if isinstance(self.type(name).layout, Replicated):
            return name
        if name not in self._gathers:
            self._gathers[name] = self.add(ops.AllGather(), (name,), wish, line)
        return self._gathers[name]

    def finish(self, outputs: Iterable[str] | None = None) -> Program:
        named = self._program.outputs if outputs is None else tuple(outputs)
        return check(replace(self._program, statements=tuple(self._made.values()), outputs=named))

    def _typed(self, op: ops.WeaveOp, args: tuple[str, ...], name: str) -> TensorType:
        try:
            return result_type(op, tuple(self.type(a) for a in args))
        except WeaveError as error:
            raise WeaveError(f"{name}: {error}") from error

    def _fresh(self, wish: str) -> str:
        name, number = wish, 2
        while name in self._made:
            name, number = f"{wish}_{number}", number + 1
        return name
