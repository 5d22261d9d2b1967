"""One Triton kernel for a fused group of vectors: its source, and what to pass it.

Each instance works on a block of this rank's slice. A ReduceScatter becomes loads from every
rank's buffer, an AllGather followed by an Update stores to every rank's buffer; values between
stay in registers. Numbers come as arguments, computed on the host; Triton takes them in 32 bits,
so float64 is refused. 16-bit types compute in 32 and round once an operation, as everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass

from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.layout import Partial, Reduction, Sliced
from paceline.weave.numbers import threshold
from paceline.weave.program import FusedGroup, Program, Statement
from paceline.weave.rules import WeaveError

TRITON = {
    DType.FLOAT32: "tl.float32",
    DType.FLOAT16: "tl.float16",
    DType.BFLOAT16: "tl.bfloat16",
}
_HALF = (DType.FLOAT16, DType.BFLOAT16)


@dataclass(frozen=True)
class Source:
    """A kernel's text. Its arguments, in order: `peers` (tables of every rank's buffer),
    `own` (this rank's buffers), `numbers`, then start and count of the slice."""

    text: str
    peers: tuple[str, ...]
    own: tuple[str, ...]
    numbers: tuple[str, ...]


def generate(group: FusedGroup) -> Source:
    """The kernel, or a `WeaveError` that names what no block can compute alone."""
    return _Writer(group).source()


class _Writer:
    def __init__(self, group: FusedGroup) -> None:
        self._group, self._program = group, group.program
        self._lines: list[str] = []
        self._peers: dict[str, None] = {}
        self._own: dict[str, None] = {}
        self._numbers: dict[str, None] = {}
        self._check()

    def source(self) -> Source:
        for statement in self._group.body:
            if not statement.type.is_scalar:
                _EMIT[type(statement.op)](self, statement)
        names = [f"{n}_peers" for n in self._peers] + [f"{n}_own" for n in self._own]
        names += [*self._numbers, "start", "count"]
        head = [
            "import triton",
            "import triton.language as tl",
            "",
            "",
            "@triton.jit",
            f"def kernel({', '.join(names)}, RANKS: tl.constexpr, BLOCK: tl.constexpr):",
            "    local = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "    inside = local < count",
            "    at = start + local",
        ]
        text = "\n".join([*head, *(f"    {line}" for line in self._lines)]) + "\n"
        return Source(text, tuple(self._peers), tuple(self._own), tuple(self._numbers))

    def _check(self) -> None:
        for statement in self._group.body:
            if statement.type.is_scalar and isinstance(statement.op, ops.POINTWISE):
                continue
            if type(statement.op) not in _EMIT:
                word = ops.word_of(statement.op)
                raise WeaveError(f"{statement.name} ({word}) needs more than one block's elements")
            if statement.type.dtype not in (*TRITON, DType.BOOL):
                known = ", ".join(d.name for d in TRITON)
                raise WeaveError(f"kernels compute {known}, not {statement.type.dtype.name}")
            if len(statement.type.shape) != 1:
                shape = list(statement.type.shape)
                raise WeaveError(f"{statement.name} of shape {shape}: kernels take vectors")
        if left := self._group.outputs:
            raise WeaveError(f"{left[0]} is read after the kernel; fuse its readers too")

    # one method a kind of statement ------------------------------------------------------------

    def scatter(self, statement: Statement) -> None:
        """The sum over ranks of this slice's elements, in rank order."""
        (source,) = statement.args
        layout = self._program[source].type.layout
        if layout != Partial(Reduction.SUM) or not self._is_input(source):
            raise WeaveError(f"{statement.name} reduces {source}: kernels sum Partial inputs")
        self._peers[source] = None
        kind = TRITON[statement.type.dtype]
        self._lines += [
            f"{statement.name} = tl.zeros([BLOCK], tl.float32)",
            "for rank in tl.static_range(RANKS):",
            f"    peer = tl.load({source}_peers + rank).to(tl.pointer_type({kind}))",
            f"    {statement.name} += tl.load(peer + at, mask=inside, other=0.0).to(tl.float32)",
        ]
        self._round(statement)

    def slice(self, statement: Statement) -> None:
        self._load(statement.name, statement.args[0], "at")

    def gather(self, statement: Statement) -> None:
        """Nothing moves until the Update that takes it: registers hold the slice."""
        readers = self._program.readers(statement.name)
        if not all(isinstance(r.op, ops.Update) for r in readers):
            raise WeaveError(f"{statement.name} is read whole in the kernel; only stores may be")
        self._lines.append(f"{statement.name} = {self._read(statement.args[0])}")

    def update(self, statement: Statement) -> None:
        target, value = statement.args
        kind = TRITON[statement.type.dtype]
        register = self._read(value)
        if isinstance(statement.type.layout, Sliced):
            self._own[target] = None
            self._lines.append(
                f"tl.store({target}_own + local, {register}.to({kind}), mask=inside)"
            )
        else:
            if not isinstance(self._program[value].op, ops.AllGather):
                raise WeaveError(f"{statement.name} stores {value} whole; kernels store slices")
            self._peers[target] = None
            self._lines += [
                "for rank in tl.static_range(RANKS):",
                f"    peer = tl.load({target}_peers + rank).to(tl.pointer_type({kind}))",
                f"    tl.store(peer + at, {register}.to({kind}), mask=inside)",
            ]
        self._lines.append(f"{statement.name} = {register}")

    def unary(self, statement: Statement) -> None:
        assert isinstance(statement.op, ops.Unary)
        self._assign(statement, _UNARY[statement.op.kind].format(self._read(statement.args[0])))

    def binary(self, statement: Statement) -> None:
        assert isinstance(statement.op, ops.Binary)
        a, b = (self._read(x) for x in statement.args)
        self._assign(statement, _BINARY[statement.op.kind].format(a, b))

    def ite(self, statement: Statement) -> None:
        self._assign(statement, "tl.where({}, {}, {})".format(*map(self._read, statement.args)))

    def cast(self, statement: Statement) -> None:
        self._assign(statement, self._read(statement.args[0]))

    def dropout(self, statement: Statement) -> None:
        """Word 0 of Philox with counter (index, 0, site, 0), as in `numbers.keep_mask`."""
        assert isinstance(statement.op, ops.Dropout)
        x, seed = (self._read(a) for a in statement.args)
        zero = "tl.zeros([BLOCK], tl.uint32)"
        self._lines += [
            f"words, _, _, _ = tl.philox({seed}, at.to(tl.uint32), (at >> 32).to(tl.uint32), "
            f"{zero} + {statement.op.site}, {zero})",
            f"kept = words.to(tl.uint32, bitcast=True) >= {threshold(statement.op.p)}",
        ]
        scale = 1.0 / (1.0 - statement.op.p)
        self._assign(statement, f"tl.where(kept, {x} * {scale!r}, 0.0)")

    # operands and results ----------------------------------------------------------------------

    def _read(self, name: str) -> str:
        """An operand: literal, number's argument, or register; inputs are loaded on first use."""
        statement = self._program[name]
        if isinstance(statement.op, ops.Const):
            return repr(statement.op.value)
        if statement.type.is_scalar:
            self._numbers[name] = None
            return name
        if name not in self._group.members and f"{name} = " not in "\n".join(self._lines):
            if not isinstance(statement.type.layout, Sliced) or not self._is_input(name):
                raise WeaveError(f"{name} is {statement.type}; kernels load slices of inputs")
            self._own[name] = None
            self._load(name, name, "local")
        return name

    def _load(self, name: str, source: str, where: str) -> None:
        self._own[source] = None
        self._lines.append(
            f"{name} = tl.load({source}_own + {where}, mask=inside, other=0.0).to(tl.float32)"
        )

    def _assign(self, statement: Statement, expression: str) -> None:
        self._lines.append(f"{statement.name} = {expression}")
        self._round(statement)

    def _round(self, statement: Statement) -> None:
        name, dtype = statement.name, statement.type.dtype
        if dtype in _HALF:
            self._lines.append(f"{name} = {name}.to({TRITON[dtype]}).to(tl.float32)")

    def _is_input(self, name: str) -> bool:
        return isinstance(self._program[name].op, ops.Input)


def host_numbers(program: Program) -> tuple[Statement, ...]:
    """Arithmetic on numbers, which the host does once a launch."""
    return tuple(s for s in program if s.type.is_scalar and not isinstance(s.op, ops.Input))


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
_EMIT: dict[type[ops.Op], Callable[[_Writer, Statement], None]] = {
    ops.ReduceScatter: _Writer.scatter,
    ops.AllGather: _Writer.gather,
    ops.Slice: _Writer.slice,
    ops.Update: _Writer.update,
    ops.Unary: _Writer.unary,
    ops.Binary: _Writer.binary,
    ops.Ite: _Writer.ite,
    ops.Cast: _Writer.cast,
    ops.Dropout: _Writer.dropout,
}
