"""Where a tensor's values are: layouts, groups, and the type of a tensor in a program.

Layouts map one to one to DTensor's placements: `Replicated` is Replicate, `Sliced(dim)` is
Shard(dim), `Partial(op)` is Partial(op). Shapes in types are global; what one rank holds is
`TensorType.local_shape`. Uneven slices follow `torch.chunk`: ceil(n / ranks) rows a rank, the
last ranks hold less or nothing.
"""

from dataclasses import dataclass
from enum import Enum

from paceline.graph import DType

Shape = tuple[int, ...]


class Reduction(Enum):
    """How the parts of a Partial tensor combine into its value."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class Replicated:
    """The same values on every rank of the group."""

    def __str__(self) -> str:
        return "Replicated"


@dataclass(frozen=True)
class Sliced:
    """Rank i of the group holds part i along `dim` (not negative)."""

    dim: int = 0

    def __str__(self) -> str:
        return f"Sliced({self.dim})"


@dataclass(frozen=True)
class Partial:
    """Full shape on every rank; the value is `op` over the ranks' parts.

    With a `root`, that rank's part is the whole value and the others hold the identity of `op`.
    """

    op: Reduction = Reduction.SUM
    root: int | None = None

    def __str__(self) -> str:
        at = "" if self.root is None else f", root={self.root}"
        return f"Partial({self.op.value}{at})"


Layout = Replicated | Sliced | Partial


@dataclass(frozen=True)
class Group:
    """Ranks that communicate. `ranks` are global; a layout's rank i is `ranks[i]`."""

    ranks: tuple[int, ...]
    name: str = "world"

    @staticmethod
    def world(size: int) -> "Group":
        return Group(tuple(range(size)))

    @property
    def size(self) -> int:
        return len(self.ranks)

    def __str__(self) -> str:
        return f"{self.name}{list(self.ranks)}"


ITEM_BYTES = {
    DType.FLOAT64: 8,
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.INT64: 8,
    DType.INT32: 4,
    DType.BOOL: 1,
}
"""Element types that programs may use, with their size."""

FLOATS = (DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


@dataclass(frozen=True)
class TensorType:
    """Global shape, element type, layout, and the group it lives in.

    `group` is None for what is the same everywhere without anyone holding it: constants.
    """

    shape: Shape
    dtype: DType
    layout: Layout
    group: Group | None

    @property
    def size(self) -> int:
        """Elements of the global tensor."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def size_bytes(self) -> int:
        return self.size * ITEM_BYTES[self.dtype]

    @property
    def is_scalar(self) -> bool:
        return self.shape == ()

    def local_shape(self, index: int) -> Shape:
        """Shape of what the group's rank `index` holds."""
        if not isinstance(self.layout, Sliced) or self.group is None:
            return self.shape
        dim = self.layout.dim
        start, end = slice_bounds(self.shape[dim], self.group.size, index)
        return (*self.shape[:dim], end - start, *self.shape[dim + 1 :])

    def __str__(self) -> str:
        return f"{self.dtype.name.lower()}{list(self.shape)} {self.layout}"


def slice_bounds(extent: int, parts: int, index: int) -> tuple[int, int]:
    """First and one-past-last row of part `index`, as `torch.chunk` and DTensor's Shard cut it."""
    step = -(-extent // parts)
    return min(index * step, extent), min((index + 1) * step, extent)
