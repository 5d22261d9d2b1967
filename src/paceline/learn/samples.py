"""`Samples`: labelled rows, and where each came from where that is known."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.learn.errors import LearnError

Rows = NDArray[np.int64]
Vector = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Samples:
    """`sources` says who made each row (a writer, a hospital), by number."""

    inputs: NDArray[np.float32]  # the first axis counts the rows
    labels: Rows
    sources: Rows | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise LearnError(
                f"{len(self.inputs)} inputs have {len(self.labels)} labels; give one for each"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    def some(self, count: int, seed: int) -> "Samples":
        """So many rows, drawn without replacement; all where there are no more."""
        if count >= len(self):
            return self
        rows = np.sort(np.random.default_rng(seed).permutation(len(self))[:count])
        sources = None if self.sources is None else self.sources[rows]
        return Samples(self.inputs[rows], self.labels[rows], sources)
