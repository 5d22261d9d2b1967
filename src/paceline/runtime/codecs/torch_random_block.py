"""A block of neighbouring gradients, at a place that all ranks draw alike.

No places travel, and blocks of all ranks add up on the way. The block may run over the end of the
bucket and go on at its beginning, so that every gradient is as likely to be sent.
"""

from random import Random

import torch

from paceline.runtime.codecs.codec import Sparse, Turn, kept


class RandomBlock(Sparse):
    """A share of all, at least one."""

    def __init__(self, ratio: float, seed: int) -> None:
        self.ratio, self.seed = ratio, seed

    def compress(self, values: torch.Tensor, turn: Turn) -> torch.Tensor:
        many, start = kept(values.numel(), self.ratio), self._start(values, turn)
        return torch.cat([values[start : start + many], values[: _over(values, start, many)]])

    def add(
        self, total: torch.Tensor, payload: torch.Tensor, turn: Turn, times: float = 1.0
    ) -> None:
        start = self._start(total, turn)
        over = _over(total, start, payload.numel())
        total[start : start + payload.numel()].add_(payload[: payload.numel() - over], alpha=times)
        total[:over].add_(payload[payload.numel() - over :], alpha=times)

    def numbers(self, count: int, turn: Turn) -> int:
        return kept(count, self.ratio)

    def clear(self, values: torch.Tensor, payload: torch.Tensor, turn: Turn) -> None:
        start = self._start(values, turn)
        values[start : start + payload.numel()] = 0
        values[: _over(values, start, payload.numel())] = 0

    def _start(self, values: torch.Tensor, turn: Turn) -> int:
        drawn = Random(f"{self.seed} {turn.bucket} {turn.part} {turn.step}")
        return drawn.randrange(int(values.numel()))


def _over(values: torch.Tensor, start: int, many: int) -> int:
    """How much of a block runs over the end."""
    return max(0, start + many - int(values.numel()))
