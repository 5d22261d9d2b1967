"""Count sketches: tables of random sums add up over ranks, and tell which values of the sum are
large; those alone travel then, exactly.

Charikar et al., "Finding Frequent Items in Data Streams" (2002); in training Ivkin et al.,
"Communication-efficient Distributed SGD with Sketching" (2019). Rows of values share a cell and a
sign, so that sums are made of rows.
"""

from dataclasses import dataclass

import torch

from paceline.runtime.codecs.codec import Iterative, Turn
from paceline.runtime.codecs.sketching import TABLES, WIDTH, SketchLayout
from paceline.runtime.codecs.torch_dgc import SampledTopK

_SAMPLE = 0.01  # of the estimates, for a bound of the largest


@dataclass
class Sketches:
    """Of one bucket: where each row goes in each table, and what travels."""

    layout: SketchLayout
    cells: torch.Tensor  # tables x rows
    signs: torch.Tensor  # the same
    tables: torch.Tensor  # tables x cells x values side by side; the first payload
    values: torch.Tensor  # the second, or the only one of a bucket that travels whole
    places: torch.Tensor  # of the values, in this turn


class Sketch(Iterative):
    """First the tables, then the values that their sum says are the largest."""

    def __init__(self, ratio: float, room: float, seed: int) -> None:
        self.ratio, self.room, self.seed = ratio, room, seed
        self._largest = SampledTopK(ratio, _SAMPLE, 0)
        self._by_bucket: dict[tuple[int, int], Sketches] = {}

    def first(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        mine = self._of(values, turn)
        if not mine.layout.cells:
            return mine.values.copy_(values)
        rows = values[: mine.layout.sketched].view(-1, WIDTH)
        for table, cells, signs in zip(mine.tables.zero_(), mine.cells, mine.signs):
            table.index_add_(0, cells, rows * signs)
        return mine.tables.flatten()

    def next(self, values: torch.Tensor, turn: Turn, round_: int) -> torch.Tensor | None:
        mine = self._of(values, turn)
        if round_ >= len(mine.layout.rounds):
            return None
        mine.places = self._chosen(mine, turn)
        mine.values[: mine.layout.kept] = 0
        mine.values[: len(mine.places)] = values[mine.places]
        mine.values[mine.layout.kept :] = values[mine.layout.sketched :]
        return mine.values

    def restore(self, total: torch.Tensor, turn: Turn) -> None:
        mine = self._of(total, turn)
        if not mine.layout.cells:
            total.copy_(mine.values)
            return
        total.zero_()[mine.places] = mine.values[: len(mine.places)]
        total[mine.layout.sketched :] = mine.values[mine.layout.kept :]

    def keep(self, values: torch.Tensor, total: torch.Tensor, members: int, turn: Turn) -> None:
        """What travelled was exact."""
        mine = self._of(values, turn)
        values[mine.places] = 0
        values[mine.layout.sketched :] = 0

    def _chosen(self, mine: Sketches, turn: Turn) -> torch.Tensor:
        """Places of the largest estimates, alike on all ranks."""
        places, sizes = self._largest.compress(_estimates(mine), turn).chunk(2)
        return places[sizes != 0].to(torch.int64).sort().values

    def _of(self, values: torch.Tensor, turn: Turn) -> Sketches:
        key = (turn.bucket, values.numel())
        found = self._by_bucket.get(key)
        if found is None:
            layout = SketchLayout.of(values.numel(), self.ratio, self.room)
            found = self._by_bucket[key] = self._drawn(layout, values, turn)
        return found

    def _drawn(self, layout: SketchLayout, like: torch.Tensor, turn: Turn) -> Sketches:
        """Alike on all ranks."""
        drawn = torch.Generator().manual_seed(self.seed + turn.bucket)
        shape = (TABLES, layout.rows)
        cells = torch.randint(max(1, layout.cells), shape, generator=drawn)
        signs = 2 * torch.randint(2, shape, generator=drawn) - 1
        return Sketches(
            layout,
            cells.to(like.device),
            signs.to(like).unsqueeze(2),
            like.new_empty(TABLES, layout.cells, WIDTH),
            like.new_empty(layout.rounds[-1]),
            cells.new_empty(0).to(like.device),
        )


def _estimates(mine: Sketches) -> torch.Tensor:
    """The middle one of what the tables say of each value."""
    each = zip(mine.tables, mine.cells, mine.signs)
    a, b, c = (table.index_select(0, cells).mul_(signs) for table, cells, signs in each)
    low, high = torch.minimum(a, b), torch.maximum(a, b, out=a)
    return torch.maximum(low, torch.minimum(high, c, out=c), out=low).flatten()
