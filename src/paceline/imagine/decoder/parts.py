"""Parts of a rank's work: products, attention, passes over memory, exchanges with other ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.graph.kinds import Axis, Collective, DType


@dataclass(frozen=True)
class Product:
    """Rows m x k times k x n, `count` times with other operands: experts, one after another. `b`
    of them in one call."""

    name: str
    m: int
    n: int
    k: int
    dtype: DType
    blockwise: bool = False
    count: int = 1
    b: int = 1
    added: bool = False  # to float32 results that are there


@dataclass(frozen=True)
class Core:
    """Attention of `b` sequences by one fused kernel. `share` is how many times the pairs under the
    causal mask of `s` tokens are worked out: less than once in a window, once for each context rank
    in a ring, whose every piece has as many pairs."""

    b: int
    s: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    share: float = 1.0
    back: bool = False


@dataclass(frozen=True)
class Passes:
    """Bytes through memory, in so many kernels."""

    size_bytes: float
    launches: int


@dataclass(frozen=True)
class AxisCollective:
    """A collective of `size_bytes` (of the larger buffer) along an axis, beside a product of that
    name where it is not empty. `copies` and `most_hosts` of an all-to-all: of how many copies of
    a token the bytes are, and to how many hosts one goes at most (0: to each expert's)."""

    collective: Collective
    axis: Axis
    size_bytes: float
    beside: str = ""
    copies: int = 1
    most_hosts: int = 0


Operator = Product | Core | Passes | AxisCollective


def launches(operators: Sequence[Operator]) -> int:
    """Kernels that the host starts."""
    return sum(_launches(one) for one in operators)


def _launches(one: Operator) -> int:
    if isinstance(one, Passes):
        return one.launches
    return one.count if isinstance(one, Product) else 1
