"""`Layout`: how a bucket's parameters lie in the two payloads of a low-rank codec.

A matrix M of n x m travels as P (n x rank) in the first round and Q (m x rank) in the second; what
is no matrix, or would be less than halved, travels whole behind the Ps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

LEAST_RATE = 2
"""A matrix is compressed where it then takes less than a part in so many (as in torch's hook)."""


@dataclass(frozen=True)
class Matrix:
    """A parameter as rows and columns; its first value in the bucket and in both payloads."""

    first: int
    rows: int
    columns: int
    rank: int
    p: int
    q: int


@dataclass(frozen=True)
class Whole:
    """A parameter that travels as it is."""

    first: int
    count: int
    p: int


@dataclass(frozen=True)
class Layout:
    matrices: tuple[Matrix, ...]
    wholes: tuple[Whole, ...]
    rounds: tuple[int, ...]  # how many numbers travel in each

    @staticmethod
    def of(shapes: Sequence[tuple[int, ...]], rank: int) -> "Layout":
        return _layout(tuple(shapes), rank)


@lru_cache(maxsize=1024)
def _layout(shapes: tuple[tuple[int, ...], ...], rank: int) -> Layout:
    matrices: list[Matrix] = []
    left: list[tuple[int, int]] = []
    first = p = q = 0
    for shape in shapes:
        count = prod(shape)
        if _pays(shape, rank):
            rows = shape[0]
            columns = count // rows
            mine = min(rank, rows, columns)
            matrices.append(Matrix(first, rows, columns, mine, p, q))
            p, q = p + mine * rows, q + mine * columns
        else:
            left.append((first, count))
        first += count
    wholes: list[Whole] = []
    for begin, count in left:
        wholes.append(Whole(begin, count, p))
        p += count
    return Layout(tuple(matrices), tuple(wholes), (p, q) if q else (p,))


def _pays(shape: tuple[int, ...], rank: int) -> bool:
    if len(shape) < 2 or not prod(shape):
        return False
    columns = prod(shape) // shape[0]
    return LEAST_RATE * rank * (shape[0] + columns) < shape[0] * columns
