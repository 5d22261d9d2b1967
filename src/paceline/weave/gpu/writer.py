"""One Triton kernel as text: a method a kind of statement.

Each instance works on a block of this rank's slice, within one segment. A ReduceScatter becomes
loads from every rank's buffer, an AllGather followed by an Update stores to every rank's buffer;
values between stay in registers. Numbers come as arguments, computed on the host; Triton takes them
in 32 bits, so float64 is refused. 16-bit types compute in 32 and round once an operation, as
everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass

from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.layout import Partial, Reduction, Sliced
from paceline.weave.numbers import threshold
from paceline.weave.program import FusedGroup, Statement
from paceline.weave.rules import WeaveError

TRITON = {
    DType.FLOAT32: "tl.float32",
    DType.FLOAT16: "tl.float16",
    DType.BFLOAT16: "tl.bfloat16",
}
_HALF = (DType.FLOAT16, DType.BFLOAT16)


@dataclass(frozen=True)
class Source:
    """A kernel's text and its arguments, in order: `peers` (tables of every rank's buffer), `own`
    (this rank's buffers), `numbers`, `tables` (one value a segment, left by the phase before),
    `parts` (room for each reduction's partial a block), then where the blocks lie."""

    text: str
    peers: tuple[str, ...]
    own: tuple[str, ...]
    numbers: tuple[str, ...]
    tables: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class Writer:
    """The one kernel of a group without reductions."""

    def __init__(self, group: FusedGroup) -> None:
        self.group, self.program = group, group.program
        self.lines: list[str] = []
        self._peers: dict[str, None] = {}
        self._own: dict[str, None] = {}
        self._numbers: dict[str, None] = {}
        self.tables: dict[str, None] = {}
        self.parts: dict[str, None] = {}
        self._check()

    def source(self) -> Source:
        self.write()
        names = [f"{n}_peers" for n in self._peers] + [f"{n}_own" for n in self._own]
        names += [*self._numbers, *(f"{n}_table" for n in self.tables)]
        names += [*(f"{n}_parts" for n in self.parts), "firsts", "lengths", "segments", "start"]
        head = [
            "import triton",
            "import triton.language as tl",
            "",
            "",
            "@triton.jit",
            f"def kernel({', '.join(names)}, RANKS: tl.constexpr, BLOCK: tl.constexpr):",
            "    block = tl.program_id(0)",
            "    lane = tl.arange(0, BLOCK)",
            "    local = tl.load(firsts + block) + lane",
            "    inside = lane < tl.load(lengths + block)",
            "    segment = tl.load(segments + block)",
            "    at = start + local",
        ]
        text = "\n".join([*head, *(f"    {line}" for line in self.lines)]) + "\n"
        found = (self._peers, self._own, self._numbers, self.tables, self.parts)
        return Source(text, *(tuple(names) for names in found))

    def write(self) -> None:
        for statement in self.elements():
            EMIT[type(statement.op)](self, statement)

    def elements(self) -> list[Statement]:
        return [s for s in self.group.body if not s.type.is_scalar]

    def _check(self) -> None:
        for statement in self.elements():
            if type(statement.op) not in EMIT:
                word = ops.word_of(statement.op)
                raise WeaveError(f"{statement.name} ({word}) needs more than one block's elements")
            if statement.type.dtype not in (*TRITON, DType.BOOL):
                known = ", ".join(d.name for d in TRITON)
                raise WeaveError(f"kernels compute {known}, not {statement.type.dtype.name}")
            if len(statement.type.shape) != 1:
                shape = list(statement.type.shape)
                raise WeaveError(f"{statement.name} of shape {shape}: kernels take vectors")
        if left := self.group.outputs:
            raise WeaveError(f"{left[0]} is read after the kernel; fuse its readers too")

    # one method a kind of statement ------------------------------------------------------------

    def scatter(self, statement: Statement) -> None:
        """The sum over ranks of this slice's elements, in rank order."""
        (source,) = statement.args
        layout = self.program[source].type.layout
        if layout != Partial(Reduction.SUM) or not self._is_input(source):
            raise WeaveError(f"{statement.name} reduces {source}: kernels sum Partial inputs")
        self._peers[source] = None
        kind = TRITON[statement.type.dtype]
        self.lines += [
            f"{statement.name} = tl.zeros([BLOCK], tl.float32)",
            "for rank in tl.static_range(RANKS):",
            f"    peer = tl.load({source}_peers + rank).to(tl.pointer_type({kind}))",
            f"    {statement.name} += tl.load(peer + at, mask=inside, other=0.0).to(tl.float32)",
        ]
        self._round(statement)

    def slice(self, statement: Statement) -> None:
        (source,) = statement.args
        if self._is_input(source):
            self.load(statement.name, source, "at")
        else:
            self.lines.append(f"{statement.name} = {self.read(source)}")

    def gather(self, statement: Statement) -> None:
        """Nothing moves until the Update that takes it: registers hold the slice."""
        readers = self.program.readers(statement.name)
        if not all(isinstance(r.op, ops.Update) for r in readers):
            raise WeaveError(f"{statement.name} is read whole in the kernel; only stores may be")
        self.lines.append(f"{statement.name} = {self.read(statement.args[0])}")

    def update(self, statement: Statement) -> None:
        target, value = statement.args
        kind = TRITON[statement.type.dtype]
        register = self.read(value)
        if isinstance(statement.type.layout, Sliced):
            self._own[target] = None
            self.lines.append(f"tl.store({target}_own + local, {register}.to({kind}), mask=inside)")
        else:
            if not isinstance(self.program[value].op, ops.AllGather):
                raise WeaveError(f"{statement.name} stores {value} whole; kernels store slices")
            self._peers[target] = None
            self.lines += [
                "for rank in tl.static_range(RANKS):",
                f"    peer = tl.load({target}_peers + rank).to(tl.pointer_type({kind}))",
                f"    tl.store(peer + at, {register}.to({kind}), mask=inside)",
            ]
        self.lines.append(f"{statement.name} = {register}")

    def unary(self, statement: Statement) -> None:
        assert isinstance(statement.op, ops.Unary)
        self._assign(statement, _UNARY[statement.op.kind].format(self.read(statement.args[0])))

    def binary(self, statement: Statement) -> None:
        assert isinstance(statement.op, ops.Binary)
        a, b = (self.read(x) for x in statement.args)
        self._assign(statement, _BINARY[statement.op.kind].format(a, b))

    def ite(self, statement: Statement) -> None:
        self._assign(statement, "tl.where({}, {}, {})".format(*map(self.read, statement.args)))

    def mul_add(self, statement: Statement) -> None:
        """Registers hold 32 bits, so numbers must be stretched for tl.fma."""
        a, b, c = (f"({self.read(x)} + tl.zeros([BLOCK], tl.float32))" for x in statement.args)
        self._assign(statement, f"tl.fma({a}, {b}, {c})")

    def repeat(self, statement: Statement) -> None:
        self.lines.append(f"{statement.name} = {self.read(statement.args[0])}")

    def cast(self, statement: Statement) -> None:
        self._assign(statement, self.read(statement.args[0]))

    def dropout(self, statement: Statement) -> None:
        """Word 0 of Philox with counter (index, 0, site, 0), as in `numbers.keep_mask`."""
        assert isinstance(statement.op, ops.Dropout)
        x, seed = (self.read(a) for a in statement.args)
        zero = "tl.zeros([BLOCK], tl.uint32)"
        self.lines += [
            f"words, _, _, _ = tl.philox({seed}, at.to(tl.uint32), (at >> 32).to(tl.uint32), "
            f"{zero} + {statement.op.site}, {zero})",
            f"kept = words.to(tl.uint32, bitcast=True) >= {threshold(statement.op.p)}",
        ]
        scale = 1.0 / (1.0 - statement.op.p)
        self._assign(statement, f"tl.where(kept, {x} * {scale!r}, 0.0)")

    # operands and results ----------------------------------------------------------------------

    def read(self, name: str) -> str:
        """An operand: literal, number's argument, or register; inputs are loaded on first use."""
        statement = self.program[name]
        if isinstance(statement.op, ops.Const):
            return repr(statement.op.value)
        if statement.type.is_scalar:
            self._numbers[name] = None
            return name
        if name not in self.group.members and not self.known(name):
            if not isinstance(statement.type.layout, Sliced) or not self._is_input(name):
                raise WeaveError(f"{name} is {statement.type}; kernels load slices of inputs")
            self._own[name] = None
            self.load(name, name, "local")
        return name

    def load(self, name: str, source: str, where: str) -> None:
        self._own[source] = None
        self.lines.append(
            f"{name} = tl.load({source}_own + {where}, mask=inside, other=0.0).to(tl.float32)"
        )

    def known(self, name: str) -> bool:
        return any(line.startswith(f"{name} = ") for line in self.lines)

    def _assign(self, statement: Statement, expression: str) -> None:
        self.lines.append(f"{statement.name} = {expression}")
        self._round(statement)

    def _round(self, statement: Statement) -> None:
        name, dtype = statement.name, statement.type.dtype
        if dtype in _HALF:
            self.lines.append(f"{name} = {name}.to({TRITON[dtype]}).to(tl.float32)")

    def _is_input(self, name: str) -> bool:
        return isinstance(self.program[name].op, ops.Input)


_UNARY = {
    ops.UnaryKind.NEG: "-{0}",
    ops.UnaryKind.SQRT: "tl.sqrt_rn({0})",
    ops.UnaryKind.ABS: "tl.abs({0})",
    ops.UnaryKind.EXP: "tl.exp({0})",
    ops.UnaryKind.TANH: "(2.0 * tl.sigmoid(2.0 * {0}) - 1.0)",
    ops.UnaryKind.RELU: "tl.maximum({0}, 0.0)",
    ops.UnaryKind.IS_FINITE: "(tl.abs({0}) < float('inf'))",
}
_BINARY = {
    ops.BinaryKind.ADD: "{0} + {1}",
    ops.BinaryKind.SUB: "{0} - {1}",
    ops.BinaryKind.MUL: "{0} * {1}",
    ops.BinaryKind.DIV: "{0} / {1}",
    ops.BinaryKind.MAXIMUM: "tl.maximum({0}, {1})",
    ops.BinaryKind.MINIMUM: "tl.minimum({0}, {1})",
    ops.BinaryKind.GREATER: "{0} > {1}",
    ops.BinaryKind.LESS: "{0} < {1}",
}
EMIT: dict[type[ops.WeaveOp], Callable[[Writer, Statement], None]] = {
    ops.ReduceScatter: Writer.scatter,
    ops.AllGather: Writer.gather,
    ops.Slice: Writer.slice,
    ops.Update: Writer.update,
    ops.Unary: Writer.unary,
    ops.Binary: Writer.binary,
    ops.Ite: Writer.ite,
    ops.MulAdd: Writer.mul_add,
    ops.Cast: Writer.cast,
    ops.Dropout: Writer.dropout,
    ops.Repeat: Writer.repeat,
}
