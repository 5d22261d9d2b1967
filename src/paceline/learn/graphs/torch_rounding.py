"""Rows of features or gradients in few bits, rounded at random or to the nearer of two means.

At random the mean is right. Zhang et al., "Sylvie: 3D-adaptive and Universal System for Large-scale
Graph Neural Network Training" (2023): per row, z = min and s = (max - min) / (2^b - 1);
q = floor((h - z) / s + u) with u uniform from 0 to 1, so that z + s q is h in the mean. With one
bit a row is packed bits and two numbers.

To the nearer mean, with one bit alone, the error is smaller. As Seide et al., "1-Bit Stochastic
Gradient Descent" (2014) have it for columns: of a row's numbers above their mean the mean travels,
and that of the others; both sums are right.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.learn.message import Message

Table = NDArray[np.float32]


class Dice:
    """Chances from 0 to 1 for many numbers at once.

    To draw one for each number would cost more than all the rest of rounding. So a ring of them,
    evenly spaced and well shuffled, is drawn once and read from another place each time: every
    number's chance is uniform, those of a message are as good as independent, and two messages that
    read the same stretch are rounded alike there.
    """

    SIZE = 1 << 18

    def __init__(self, drawn: np.random.Generator) -> None:
        self._drawn = drawn
        order = drawn.permutation(self.SIZE).astype(np.float32)
        self._ring = torch.from_numpy((order + 0.5) / self.SIZE)
        self._twice = torch.cat([self._ring, self._ring])

    def cast(self, count: int) -> Tensor:
        """So many, not to be written to."""
        first = int(self._drawn.integers(self.SIZE))
        if count <= self.SIZE:
            return self._twice[first : first + count]
        return self._ring.repeat(-(-(first + count) // self.SIZE))[first : first + count]


@dataclass(frozen=True)
class Rounding:
    """`bits` 1, 2, 4 or 8; 32 sends rows as they are. `means`: one bit says which of two means."""

    bits: int = 32
    means: bool = False

    def packed(self, table: Table, dice: Dice) -> Message:
        if self.bits == 32:
            return Message({"rows": table})
        if self.means:
            return self._two_means(torch.from_numpy(table))
        rows, most = torch.from_numpy(table), 2**self.bits - 1
        low = rows.amin(dim=1, keepdim=True)
        step = (rows.amax(dim=1, keepdim=True) - low) / most
        ends = torch.cat([low, step], dim=1).numpy()
        chance = dice.cast(rows.numel()).view(rows.shape)
        if self.bits == 1:
            levels = np.packbits((rows - low > chance * step).numpy())
        else:
            scaled = torch.where(step > 0, (rows - low) / step, 0.0) + chance
            levels = self._side_by_side(scaled.clamp_(max=most).to(torch.uint8).numpy())
        return Message({"levels": levels, "ends": ends})

    def restored(self, message: Message, columns: int) -> Table:
        if self.bits == 32:
            rows: Table = message.vectors["rows"]
            return rows
        ends = torch.from_numpy(message.vectors["ends"])
        levels = self._apart(message.vectors["levels"], len(ends) * columns)
        found = torch.from_numpy(levels.reshape(-1, columns).astype(np.float32))
        restored: Table = found.mul_(ends[:, 1:]).add_(ends[:, :1]).numpy()
        return restored

    def _two_means(self, rows: Tensor) -> Message:
        """What lies above a mean sums up to what lies below it, so one sum of both has the two."""
        columns, mean = rows.shape[1], rows.mean(dim=1, keepdim=True)
        apart = rows - mean
        above = apart.numpy() > 0
        ones = torch.from_numpy(above.view(np.uint8)).sum(dim=1, keepdim=True, dtype=torch.int32)
        count, half = ones.float(), apart.abs_().sum(dim=1, keepdim=True) / 2
        low = mean - half / (columns - count)  # not all are above a mean
        step = torch.where(count > 0, mean + half / count.clamp(min=1) - low, 0.0)
        ends = torch.cat([low, step], dim=1).numpy()
        return Message({"levels": np.packbits(above), "ends": ends})

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
