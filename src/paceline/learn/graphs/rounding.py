"""Rows of features or gradients in few bits, rounded at random so that the mean is right.

Zhang et al., "Sylvie: 3D-adaptive and Universal System for Large-scale Graph Neural Network
Training" (2023): per row, z = min and s = (max - min) / (2^b - 1); q = floor((h - z) / s + u) with
u uniform from 0 to 1, so that z + s q is h in the mean. With one bit a row is packed bits and two
numbers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.learn.message import Message

Table = NDArray[np.float32]


@dataclass(frozen=True)
class Rounding:
    """`bits` 1, 2, 4 or 8; 32 sends rows as they are."""

    bits: int = 32

    def packed(self, rows: Table, drawn: np.random.Generator) -> Message:
        if self.bits == 32:
            return Message({"rows": rows})
        low, high = _least_and_most(rows)
        step = (high - low) / np.float32(2**self.bits - 1)
        ends = np.concatenate([low, step], axis=1).astype(np.float32)
        chance = drawn.random(rows.shape, np.float32)
        if self.bits == 1:
            return Message({"levels": np.packbits(rows - low > chance * step), "ends": ends})
        scaled = np.divide(rows - low, step, out=np.zeros_like(rows), where=step > 0)
        levels = np.minimum(scaled + chance, 2**self.bits - 1).astype(np.uint8)
        return Message({"levels": self._side_by_side(levels), "ends": ends})

    def restored(self, message: Message, columns: int) -> Table:
        if self.bits == 32:
            rows: Table = message.vectors["rows"]
            return rows
        ends = message.vectors["ends"]
        levels = self._apart(message.vectors["levels"], len(ends) * columns)
        found: Table = np.multiply(levels.reshape(-1, columns), ends[:, 1:], dtype=np.float32)
        found += ends[:, :1]
        return found

    def _side_by_side(self, levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Several levels in a byte, the first in its highest bits."""
        in_byte = 8 // self.bits
        flat = np.zeros(-(-levels.size // in_byte) * in_byte, np.uint8)
        flat[: levels.size] = levels.ravel()
        placed = flat.reshape(-1, in_byte) << self._shifts
        found: NDArray[np.uint8] = np.bitwise_or.reduce(placed, axis=1)
        return found

    def _apart(self, packed: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
        if self.bits == 1:
            return np.unpackbits(packed, count=count)
        mask = np.uint8(2**self.bits - 1)
        return ((packed[:, None] >> self._shifts) & mask).ravel()[:count]

    @property
    def _shifts(self) -> NDArray[np.uint8]:
        return np.arange(8 - self.bits, -1, -self.bits).astype(np.uint8)


def _least_and_most(rows: Table) -> tuple[Table, Table]:
    """Of each row. Rows are short, and reduced faster side by side than one by one."""
    if not rows.size:
        return rows[:, :1], rows[:, :1]
    across = np.ascontiguousarray(rows.T)
    return across.min(axis=0)[:, None], across.max(axis=0)[:, None]
