"""Lossless homomorphic compression (arXiv 2402.07529): sums of sketches are sketches of sums.

A gradient is rows of `width` values. A sketch of fewer rows adds every row to three of its own,
one in each third; the columns stay. (The signs of a count sketch serve estimates, and nothing is
estimated here.) Beside it goes a bitmap of the non-zeros. Switches add sketches and OR bitmaps,
knowing nothing of either. A worker then peels: where a cell of the sum holds one non-zero alone,
that value is known and is taken out of its other two cells, and so on. Of a sketch that holds twice
the union's non-zeros all but rare knots peel; every worker knows the places of what is left, and a
last round sums it as it is. So the result is exact always: it equals `Integer`'s bit for bit, since
cells are integers that wrap round. Where the bitmap shows a union too dense to peel, the union is
summed as it is, without a sketch.
"""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.wire.aggregate.blocks import padded
from paceline.wire.aggregate.integers import Scale, shared_scale
from paceline.wire.aggregate.rounds import Array, Floats, RoundRequest, Rounds, SwitchOp
from paceline.wire.errors import WireError

WIDTH = 1024
PARTS = 3
PEELS = 0.75
"""Share of the cells that may be taken: of large sketches 0.818 peel, of small ones less."""

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Sketched:
    """The mode. `cells` is the sketch's size as a share of the gradient's: twice the density that
    the union of all workers' non-zeros is expected to have."""

    workers: int
    cells: float
    width: int = WIDTH

    def __post_init__(self) -> None:
        if not 0 < self.cells <= 1 or self.width < 1:
            raise WireError(
                f"cells={self.cells}, width={self.width}; cells is the sketch's share of the "
                "gradient, above 0 and up to 1"
            )

    def __call__(self, gradient: Floats) -> Rounds:
        scale = yield from shared_scale(gradient, self.workers)
        rows = self._integers(gradient, scale)
        used = yield RoundRequest(SwitchOp.OR, np.packbits(rows != 0))
        union = np.unpackbits(used, count=rows.size).astype(bool).reshape(rows.shape)
        shape = SketchShape.of(rows.shape[0], self.cells)
        if not shape.holds(union):
            total = yield from _as_it_is(rows, union)
        else:
            sketch = yield RoundRequest(SwitchOp.SUM, sketched(rows, shape))
            total, left = peeled(sketch, union, shape)
            if left.any():
                total[left] = yield RoundRequest(SwitchOp.SUM, rows[left])
        return scale.values(total).reshape(-1)[: gradient.size].reshape(gradient.shape)

    def _integers(self, gradient: Floats, scale: Scale) -> Array:
        """Rows of integers; only what is not zero is worth scaling."""
        flat = padded(gradient, self.width)
        made, there = np.zeros(flat.shape, np.int32), np.flatnonzero(flat)
        made.reshape(-1)[there] = scale.integers(flat.reshape(-1)[there])
        return made


def _as_it_is(rows: Array, union: NDArray[np.bool_]) -> Generator[RoundRequest, Array, Array]:
    """The union alone, in order: never more than the dense gradient."""
    total = np.zeros_like(rows)
    total[union] = yield RoundRequest(SwitchOp.SUM, rows[union])
    return total


@dataclass(frozen=True)
class SketchShape:
    """Which rows of the sketch a row of the gradient is added to."""

    rows: int
    part_rows: int

    @staticmethod
    def of(rows: int, cells: float) -> "SketchShape":
        return SketchShape(rows, max(1, -(-int(np.ceil(rows * cells)) // PARTS)))

    @property
    def sketch_rows(self) -> int:
        return PARTS * self.part_rows

    def places(self) -> Rows:
        """(PARTS, rows): the sketch's row in each part."""
        return np.stack(
            [
                part * self.part_rows + _hash(self.rows, part) % self.part_rows
                for part in range(PARTS)
            ]
        ).astype(np.int64)

    def holds(self, union: NDArray[np.bool_]) -> bool:
        """Whether a union of non-zeros can be expected to peel."""
        return bool(union.sum() <= PEELS * self.sketch_rows * union.shape[1])


def sketched(rows: Array, shape: SketchShape) -> Array:
    """The sketch of a gradient's rows. Cells wrap round."""
    width = rows.shape[1]
    made = np.zeros(shape.sketch_rows * width, rows.dtype)
    there = np.flatnonzero(rows)
    values, (row, column) = rows.reshape(-1)[there], np.divmod(there, width)
    for place in shape.places():
        np.add.at(made, place[row] * width + column, values)
    return made.reshape(shape.sketch_rows, width)


def peeled(
    sketch: Array, union: NDArray[np.bool_], shape: SketchShape
) -> tuple[Array, NDArray[np.bool_]]:
    """The rows whose sketch it is, and where they could not be told (there they are zero)."""
    width = union.shape[1]
    row, column = np.divmod(np.flatnonzero(union), width)
    cells = shape.places()[:, row] * width + column  # of each non-zero, three
    values = np.zeros(row.size, sketch.dtype)
    flat = sketch.reshape(-1).copy()
    holding = np.bincount(cells.reshape(-1), minlength=flat.size)
    open_ = np.arange(row.size)
    while open_.size:
        alone = holding[cells[:, open_]] == 1
        found = alone.any(axis=0)
        if not found.any():
            break
        mine = open_[found]
        where = cells[alone[:, found].argmax(axis=0), mine]
        values[mine] = flat[where]
        for part in cells[:, mine]:
            np.subtract.at(flat, part, values[mine])
            np.subtract.at(holding, part, 1)
        open_ = open_[~found]
    total = np.zeros(union.shape, sketch.dtype)
    total[row, column] = values
    left = np.zeros(union.shape, bool)
    left[row[open_], column[open_]] = True
    return total, left


def _hash(rows: int, seed: int) -> NDArray[np.uint64]:
    """64 mixed bits of every row's number."""
    z = np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64((seed + 1) * 0xBF58476D1CE4E5B9 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    made: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return made
