"""The language: handles with operators, and the functions that programs are written with.

    g = tensor("g", (n,), Partial(), group, role=Role.GRADIENT)
    w = tensor("w", (n,), Replicated(), group, role=Role.PARAMETER)
    step = program("sgd", Update(w, w - 0.1 * (AllReduce(g) / group.size)))

A handle is an expression: typed when written, so that a wrong layout is an error at its line.
`program` gathers everything its outputs need.
"""

import linecache
import sys
from dataclasses import dataclass, field
from itertools import count

from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.layout import (
    ITEM_BYTES,
    Group,
    Layout,
    Partial,
    Reduction,
    Replicated,
    Sliced,
    TensorType,
)
from paceline.weave.ops import BinaryKind, ReduceKind, Role, UnaryKind
from paceline.weave.program import Program, Statement, check
from paceline.weave.rules import WeaveError, result_type

_written = count()  # orders handles as they were written; only differences matter

Number = int | float


@dataclass(frozen=True, eq=False)
class Tensor:
    """An expression of a program: an op on other expressions, its type, where it was written."""

    op: ops.WeaveOp
    args: tuple["Tensor", ...]
    type: TensorType
    label: str
    line: str
    order: int = field(default_factory=lambda: next(_written))

    def __add__(self, other: "Tensor | Number") -> "Tensor":
        return _binary(BinaryKind.ADD, self, other)

    def __radd__(self, other: Number) -> "Tensor":
        return _binary(BinaryKind.ADD, other, self)

    def __sub__(self, other: "Tensor | Number") -> "Tensor":
        return _binary(BinaryKind.SUB, self, other)

    def __rsub__(self, other: Number) -> "Tensor":
        return _binary(BinaryKind.SUB, other, self)

    def __mul__(self, other: "Tensor | Number") -> "Tensor":
        return _binary(BinaryKind.MUL, self, other)

    def __rmul__(self, other: Number) -> "Tensor":
        return _binary(BinaryKind.MUL, other, self)

    def __truediv__(self, other: "Tensor | Number") -> "Tensor":
        return _binary(BinaryKind.DIV, self, other)

    def __rtruediv__(self, other: Number) -> "Tensor":
        return _binary(BinaryKind.DIV, other, self)

    def __pow__(self, other: "Tensor | Number") -> "Tensor":
        return _binary(BinaryKind.POW, self, other)

    def __rpow__(self, other: Number) -> "Tensor":
        return _binary(BinaryKind.POW, other, self)

    def __gt__(self, other: "Tensor | Number") -> "Tensor":
        return _binary(BinaryKind.GREATER, self, other)

    def __lt__(self, other: "Tensor | Number") -> "Tensor":
        return _binary(BinaryKind.LESS, self, other)

    def __neg__(self) -> "Tensor":
        return _apply(ops.Unary(UnaryKind.NEG), self)

    def __matmul__(self, other: "Tensor") -> "Tensor":
        return MatMul(self, other)

    def __bool__(self) -> bool:
        raise WeaveError(f"{_line()}: a tensor of a program has no truth value yet; write Ite")


def tensor(
    name: str,
    shape: tuple[int, ...],
    layout: Layout,
    group: Group,
    *,
    dtype: DType = DType.FLOAT32,
    role: Role = Role.DATA,
) -> Tensor:
    """A buffer of the caller, by its global shape."""
    line = _line()
    if dtype not in ITEM_BYTES:
        allowed = ", ".join(d.name for d in ITEM_BYTES)
        raise WeaveError(f"{line}: {name} of {dtype.name}; allowed: {allowed}")
    if any(extent < 0 for extent in shape):
        raise WeaveError(f"{line}: {name} of shape {shape}; extents must not be negative")
    if isinstance(layout, Sliced) and not 0 <= layout.dim < len(shape):
        raise WeaveError(f"{line}: {name} of shape {shape} has no dim {layout.dim} to slice")
    return Tensor(ops.Input(role), (), TensorType(shape, dtype, layout, group), name, line)


def scalar(name: str, group: Group, dtype: DType = DType.FLOAT64) -> Tensor:
    """A number that the caller passes at each run: the step, the learning rate, a seed."""
    kind = TensorType((), dtype, Replicated(), group)
    return Tensor(ops.Input(Role.SCALAR), (), kind, name, _line())


def program(name: str, *outputs: Tensor) -> Program:
    """All that the outputs need, in the order in which it was written."""
    if not outputs:
        raise WeaveError(f"{_line()}: program {name!r} returns nothing; pass its outputs")
    handles = sorted(_reachable(outputs), key=lambda t: t.order)
    names = _names(handles)
    statements = tuple(
        Statement(names[t], t.op, tuple(names[a] for a in t.args), t.type, t.line) for t in handles
    )
    return check(Program(name, statements, tuple(dict.fromkeys(names[t] for t in outputs))))


def AllReduce(x: Tensor, op: Reduction | None = None, *, name: str = "") -> Tensor:
    """Partial -> Replicated. `op`, where given, must be the one that x is Partial in."""
    if op is not None and isinstance(x.type.layout, Partial) and x.type.layout.op is not op:
        raise WeaveError(f"{_line()}: AllReduce with {op.value} of {x.type}")
    return _apply(ops.AllReduce(), x, name=name)


def ReduceScatter(x: Tensor, dim: int = 0, *, name: str = "") -> Tensor:
    return _apply(ops.ReduceScatter(dim), x, name=name)


def AllGather(x: Tensor, *, name: str = "") -> Tensor:
    return _apply(ops.AllGather(), x, name=name)


def ReduceTo(x: Tensor, root: int = 0, *, name: str = "") -> Tensor:
    return _apply(ops.ReduceTo(root), x, name=name)


def Broadcast(x: Tensor, root: int = 0, *, name: str = "") -> Tensor:
    return _apply(ops.Broadcast(root), x, name=name)


def AllToAll(x: Tensor, dim: int, *, name: str = "") -> Tensor:
    return _apply(ops.AllToAll(dim), x, name=name)


def Send(x: Tensor, to: Group, *, name: str = "") -> Tensor:
    return _apply(ops.Send(to), x, name=name)


def Slice(x: Tensor, dim: int = 0, *, name: str = "") -> Tensor:
    return _apply(ops.Slice(dim), x, name=name)


def MatMul(a: Tensor, b: Tensor, *, name: str = "") -> Tensor:
    return _apply(ops.MatMul(), a, b, name=name)


def Sqrt(x: Tensor) -> Tensor:
    return _apply(ops.Unary(UnaryKind.SQRT), x)


def Unary(kind: UnaryKind, x: Tensor) -> Tensor:
    return _apply(ops.Unary(kind), x)


def Maximum(a: Tensor, b: Tensor | Number) -> Tensor:
    return _binary(BinaryKind.MAXIMUM, a, b)


def Minimum(a: Tensor, b: Tensor | Number) -> Tensor:
    return _binary(BinaryKind.MINIMUM, a, b)


def Cast(x: Tensor, dtype: DType) -> Tensor:
    """x itself where it is of that type already."""
    return x if x.type.dtype is dtype else _apply(ops.Cast(dtype), x)


def Ite(condition: Tensor, a: Tensor | Number, b: Tensor | Number) -> Tensor:
    return _apply(ops.Ite(), condition, _lift(a), _lift(b))


def MulAdd(a: Tensor | Number, b: Tensor | Number, c: Tensor | Number) -> Tensor:
    """a * b + c, rounded once: what torch's optimizers compute, to the last bit."""
    return _apply(ops.MulAdd(), _lift(a), _lift(b), _lift(c))


def Dropout(x: Tensor, p: float, seed: Tensor | int, *, site: int = 0) -> Tensor:
    """`site` tells two dropouts of one program with one seed apart."""
    return _apply(ops.Dropout(p, site), x, _lift(seed))


def ReduceAll(
    x: Tensor,
    kind: ReduceKind = ReduceKind.SUM,
    *,
    dim: int | None = None,
    segments: tuple[int, ...] | None = None,
) -> Tensor:
    """Over elements, not ranks: all of them, along `dim`, or within each segment of a vector."""
    return _apply(ops.Reduce(kind, dim, segments), x)


def Norm(x: Tensor, *, segments: tuple[int, ...] | None = None) -> Tensor:
    """Euclidean norm; of a Sliced tensor it includes the AllReduce that joins the slices."""
    squares = ReduceAll(x, ReduceKind.SUM_SQUARES, segments=segments)
    joined = AllReduce(squares) if isinstance(squares.type.layout, Partial) else squares
    return Sqrt(joined)


def Repeat(x: Tensor, segments: tuple[int, ...]) -> Tensor:
    """One value a segment -> one value an element."""
    return _apply(ops.Repeat(segments), x)


def Update(target: Tensor, value: Tensor, *, name: str = "") -> Tensor:
    """Store value into the input `target`; read the result, not `target`, from here on."""
    if not isinstance(target.op, ops.Input):
        raise WeaveError(f"{_line()}: Update of an expression; only inputs can be updated")
    return _apply(ops.Update(), target, value, name=name)


def _binary(kind: BinaryKind, a: Tensor | Number, b: Tensor | Number) -> Tensor:
    return _apply(ops.Binary(kind), _lift(a), _lift(b))


def _lift(value: Tensor | Number) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, int | float):
        raise WeaveError(f"{_line()}: {value!r} is neither a tensor of a program nor a number")
    kind = TensorType((), DType.FLOAT64, Replicated(), None)
    return Tensor(ops.Const(float(value)), (), kind, "const", _line())


def _apply(op: ops.WeaveOp, *args: Tensor, name: str = "") -> Tensor:
    line = _line()
    try:
        kind = result_type(op, tuple(a.type for a in args))
    except WeaveError as error:
        raise WeaveError(f"{line}: {error}") from error
    return Tensor(op, args, kind, name, line)


def _line() -> str:
    """`file:line` of the innermost caller outside this file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    where = f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
    source: str = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{where} `{source}`" if source else where


def _reachable(outputs: tuple[Tensor, ...]) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    waiting = list(outputs)
    while waiting:
        handle = waiting.pop()
        if id(handle) not in found:
            found[id(handle)] = handle
            waiting.extend(handle.args)
    return list(found.values())


def _names(handles: list[Tensor]) -> dict[Tensor, str]:
    """Given names are kept; others are the op's word with a number where it repeats."""
    given = {t.label for t in handles if t.label and not isinstance(t.op, ops.Const)}
    taken: dict[str, int] = dict.fromkeys(given, 1)
    names = {}
    for handle in handles:
        word = handle.label or ops.word_of(handle.op)
        if word in given and handle.label:
            names[handle] = word
            continue
        taken[word] = taken.get(word, 0) + 1
        names[handle] = word if taken[word] == 1 else f"{word}_{taken[word]}"
    return names
