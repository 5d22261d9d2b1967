"""Which numbers a long column holds, and which of them each row has: of few that lie close together
by a table, without sorting, and a block of rows at a time, so that a column of gigabytes needs no
second one beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

BLOCK: Final = 1 << 18
_CLOSE: Final = 4096


def blocks(count: int) -> Iterator[slice]:
    """Rows in parts that fit into a core's cache."""
    return (slice(at, min(at + BLOCK, count)) for at in range(0, count, BLOCK))


def blocks_of_ranks(rank: Int32, block: int = BLOCK) -> list[slice]:
    """The same, with all rows of a rank in one part; one part of all where ranks do not ascend."""
    turns = np.flatnonzero(rank[1:] != rank[:-1]) + 1
    if (rank[turns] < rank[turns - 1]).any():
        return [slice(0, len(rank))]
    part = turns // block
    cuts = turns[np.append(part[1:] != part[:-1], False)[: len(turns)]].tolist()
    return [slice(begin, end) for begin, end in pairwise([0, *cuts, len(rank)])]


def runs(*columns: Int32) -> Int64:
    """The rows that differ from the one before them."""
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)


@dataclass(frozen=True, eq=False)
class Distinct:
    """The numbers of a column, ascending."""

    numbers: Int64
    least: int
    table: Int64 | None  # by how far a number is past `least`: its place; None where they are far

    @staticmethod
    def of(column: Int32 | Int64) -> "Distinct":
        least, most = int(column.min(initial=0)), int(column.max(initial=0))
        if most - least > 16 * len(column) + _CLOSE:
            return Distinct(np.unique(column).astype(np.int64), least, None)
        there = np.zeros(most - least + 1, np.bool_)
        for rows in blocks(len(column)):
            there[np.subtract(column[rows], least, dtype=np.int64)] = True
        return Distinct(np.flatnonzero(there) + least, least, np.cumsum(there) - 1)

    def __len__(self) -> int:
        return len(self.numbers)

    def places(self, column: Int32 | Int64) -> Int64:
        """Of each row, which number it has; all of them must be among these."""
        if self.table is None:
            return np.searchsorted(self.numbers, column)
        return self.table[np.subtract(column, self.least, dtype=np.int64)]
