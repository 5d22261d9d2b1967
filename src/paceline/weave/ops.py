"""The operations of the language: one frozen dataclass each, holding its static settings.

Operands are not in here: a `Statement` (program.py) names them. `rules.py` types each op,
`interpreter.py` says what it computes.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from paceline.graph import DType
from paceline.weave.layout import Group, Reduction


class Role(Enum):
    """What an input is for; optimizers and the arena sort buffers by it."""

    PARAMETER = "parameter"
    GRADIENT = "gradient"
    STATE = "state"
    SCALAR = "scalar"  # a number that the host passes at each run: step, learning rate, seed
    DATA = "data"


class UnaryKind(Enum):
    NEG = "neg"
    SQRT = "sqrt"
    ABS = "abs"
    EXP = "exp"
    TANH = "tanh"
    RELU = "relu"
    IS_FINITE = "is_finite"


class BinaryKind(Enum):
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    POW = "pow"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    GREATER = "greater"
    LESS = "less"


class ReduceKind(Enum):
    """Reductions over elements of one tensor (not over ranks)."""

    SUM = "sum"
    SUM_SQUARES = "sum_squares"
    MAX = "max"
    MIN = "min"


ACROSS_RANKS = {
    ReduceKind.SUM: Reduction.SUM,
    ReduceKind.SUM_SQUARES: Reduction.SUM,
    ReduceKind.MAX: Reduction.MAX,
    ReduceKind.MIN: Reduction.MIN,
}
"""How slices' results combine: the cross-rank fix-up of a reduction."""


@dataclass(frozen=True)
class WeaveOp:
    """Contract: a static description; `word` is its name in printed programs."""

    word: ClassVar[str] = "op"


# Sources -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input(WeaveOp):
    """A named buffer of the caller."""

    word: ClassVar[str] = "input"
    role: Role = Role.DATA


@dataclass(frozen=True)
class Const(WeaveOp):
    """A Python number; takes the element type of whatever it meets."""

    word: ClassVar[str] = "const"
    value: float = 0.0


# Computation ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unary(WeaveOp):
    word: ClassVar[str] = "unary"
    kind: UnaryKind = UnaryKind.NEG


@dataclass(frozen=True)
class Binary(WeaveOp):
    word: ClassVar[str] = "binary"
    kind: BinaryKind = BinaryKind.ADD


@dataclass(frozen=True)
class Cast(WeaveOp):
    word: ClassVar[str] = "cast"
    dtype: DType = DType.FLOAT32


@dataclass(frozen=True)
class Ite(WeaveOp):
    """ite(condition, a, b): a where the condition holds, else b."""

    word: ClassVar[str] = "ite"


@dataclass(frozen=True)
class MulAdd(WeaveOp):
    """mul_add(a, b, c): a * b + c, rounded once where it computes in 32 bits."""

    word: ClassVar[str] = "mul_add"


@dataclass(frozen=True)
class Dropout(WeaveOp):
    """dropout(x, seed): zero with probability p, else x / (1 - p).

    Element i (global, row-major index) is dropped iff word 0 of Philox4x32-10 with key = seed and
    counter = (i low, i high, site, 0) is below p * 2^32; see random.py. No rank enters it.
    """

    word: ClassVar[str] = "dropout"
    p: float = 0.5
    site: int = 0  # tells two dropouts of one program apart


@dataclass(frozen=True)
class Reduce(WeaveOp):
    """Over all elements (to shape ()), over `dim` (kept with extent 1), or, for a vector, over
    each of `segments` (lengths that add up to its size; the result has one element a segment)."""

    word: ClassVar[str] = "reduce"
    kind: ReduceKind = ReduceKind.SUM
    dim: int | None = None
    segments: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Repeat(WeaveOp):
    """Element s of a vector, `segments[s]` times: undoes a segmented Reduce's shape."""

    word: ClassVar[str] = "repeat"
    segments: tuple[int, ...] = ()


@dataclass(frozen=True)
class MatMul(WeaveOp):
    """matmul(A[..., K], B[K, N])."""

    word: ClassVar[str] = "matmul"


@dataclass(frozen=True)
class Slice(WeaveOp):
    """Each rank's own part of a Replicated tensor; moves nothing."""

    word: ClassVar[str] = "slice"
    dim: int = 0


@dataclass(frozen=True)
class Update(WeaveOp):
    """update(t, value): stores value into the input t; its result is the new t."""

    word: ClassVar[str] = "update"


# Communication -------------------------------------------------------------------------------


@dataclass(frozen=True)
class CollectiveOp(WeaveOp):
    """Contract of ops that move bytes between ranks."""


@dataclass(frozen=True)
class AllReduce(CollectiveOp):
    """Partial -> Replicated."""

    word: ClassVar[str] = "all_reduce"


@dataclass(frozen=True)
class ReduceScatter(CollectiveOp):
    """Partial -> Sliced(dim)."""

    word: ClassVar[str] = "reduce_scatter"
    dim: int = 0


@dataclass(frozen=True)
class AllGather(CollectiveOp):
    """Sliced -> Replicated."""

    word: ClassVar[str] = "all_gather"


@dataclass(frozen=True)
class ReduceTo(CollectiveOp):
    """Partial -> Partial with everything at the group's rank `root`."""

    word: ClassVar[str] = "reduce_to"
    root: int = 0


@dataclass(frozen=True)
class Broadcast(CollectiveOp):
    """Partial with a root -> Replicated."""

    word: ClassVar[str] = "broadcast"
    root: int = 0


@dataclass(frozen=True)
class AllToAll(CollectiveOp):
    """Sliced(a) -> Sliced(dim)."""

    word: ClassVar[str] = "all_to_all"
    dim: int = 0


@dataclass(frozen=True)
class Send(CollectiveOp):
    """Rank i of the operand's group hands its part to rank i of `to`; any layout, kept."""

    word: ClassVar[str] = "send"
    to: Group = field(default_factory=lambda: Group((0,)))


POINTWISE = (Unary, Binary, Cast, Ite, MulAdd)
"""Ops that treat every element alike, wherever it lies."""


def word_of(op: WeaveOp) -> str:
    """The op's name as programs print it: `add` for a Binary of that kind."""
    return str(op.kind.value) if isinstance(op, Unary | Binary | Reduce) else op.word
