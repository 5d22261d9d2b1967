"""Sparse matrices that multiply many columns at once.

Bags of embeddings do that in a third of the time that torch's own sparse matrices take.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from paceline.learn.samples import Rows


@dataclass(frozen=True, eq=False)
class Sparse:
    """By rows."""

    columns: Tensor
    starts: Tensor  # of rows, and the end of the last
    values: Tensor

    @classmethod
    def of(cls, places: Rows, values: Any, rows: int) -> "Sparse":
        """From pairs of row and column."""
        order = np.argsort(places[:, 0], kind="stable")
        starts = np.concatenate([[0], np.bincount(places[:, 0], minlength=rows).cumsum()])
        told = (places[order, 1].astype(np.int32), starts.astype(np.int32))
        return cls(*map(torch.from_numpy, (*told, values[order].astype(np.float32))))

    def times(self, rows: Tensor) -> Tensor:
        if not len(self.columns):
            return torch.zeros(len(self.starts) - 1, rows.shape[1])
        return nn.functional.embedding_bag(
            self.columns, rows, self.starts, mode="sum", per_sample_weights=self.values,
            include_last_offset=True,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class BothWays:
    """A matrix, and its transpose for the way back."""

    there: Sparse
    back: Sparse

    @classmethod
    def of(cls, places: Rows, values: Any, shape: tuple[int, int]) -> "BothWays":
        rows, columns = shape
        back = Sparse.of(places[:, ::-1], values, columns)
        return cls(Sparse.of(places, values, rows), back)
