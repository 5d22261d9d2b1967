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
        low = rows.min(axis=1, keepdims=True) if rows.size else rows[:, :1]
        high = rows.max(axis=1, keepdims=True) if rows.size else rows[:, :1]
        step = (high - low) / np.float32(2**self.bits - 1)
        scaled = np.divide(rows - low, step, out=np.zeros_like(rows), where=step > 0)
        levels = np.floor(scaled + drawn.random(rows.shape, np.float32)).astype(np.uint8)
        levels = np.minimum(levels, 2**self.bits - 1).astype(np.uint8)
        ends = np.concatenate([low, step], axis=1).astype(np.float32)
        return Message({"levels": self._bits(levels), "ends": ends})

    def restored(self, message: Message, columns: int) -> Table:
        if self.bits == 32:
            rows: Table = message.vectors["rows"]
            return rows
        ends = message.vectors["ends"]
        shape = (len(ends), columns, self.bits)
        bits = np.unpackbits(message.vectors["levels"], count=int(np.prod(shape)))
        weights = (2 ** np.arange(self.bits - 1, -1, -1)).astype(np.float32)
        found: Table = ends[:, :1] + ends[:, 1:] * (bits.reshape(shape) @ weights)
        return found

    def _bits(self, levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The lowest bits of each level, one behind the other."""
        each = np.unpackbits(levels.reshape(-1, 1), axis=1)[:, 8 - self.bits :]
        return np.packbits(each)
