"""`SketchLayout`: how many numbers of a bucket travel in the two rounds of a sketch.

Values lie in rows of `WIDTH`; a table adds each row, with a sign, to one of its cells of as many
numbers. What is left behind the last whole row travels as it is in the second round.
"""

from dataclasses import dataclass
from math import ceil

from paceline.runtime.codecs.codec import kept

TABLES = 3
"""The middle of three estimates is right where two are."""
WIDTH = 64
"""Values side by side that share a cell, so that sums are made of rows of memory."""


@dataclass(frozen=True)
class SketchLayout:
    """Of a bucket of so many values."""

    count: int
    rows: int  # whole rows of values
    cells: int  # rows of each table; 0: the bucket travels whole, in one round
    kept: int  # values that are asked for in the second round

    @staticmethod
    def of(count: int, ratio: float, room: float) -> "SketchLayout":
        """`room`: numbers of all tables for each value that is kept."""
        wanted = kept(count, ratio)
        cells = max(1, ceil(room * wanted / (TABLES * WIDTH)))
        made = SketchLayout(count, count // WIDTH, cells, wanted)
        return made if sum(made.rounds) < count else SketchLayout(count, 0, 0, count)

    @property
    def sketched(self) -> int:
        """Values in whole rows."""
        return self.rows * WIDTH

    @property
    def rounds(self) -> tuple[int, ...]:
        """Numbers that travel in each round."""
        if not self.cells:
            return (self.count,)
        return TABLES * self.cells * WIDTH, self.kept + self.count - self.sketched
