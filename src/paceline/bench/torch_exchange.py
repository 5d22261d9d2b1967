"""Exchanges that gradients pass through: all-to-all of rows, and all-gather of every part."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def exchanged(rows: Tensor, given: Sequence[int], taken: Sequence[int]) -> Tensor:
    """So many rows to each worker in turn, so many from each; gradients go the way back."""
    found: Tensor = _Exchange.apply(rows, list(given), list(taken))
    return found


def gathered(part: Tensor) -> Tensor:
    """All workers' parts, which are alike in shape, below one another; each part's gradient is
    the sum of what all workers found."""
    found: Tensor = _Gather.apply(part)
    return found


def moved(rows: Tensor, given: Sequence[int], taken: Sequence[int]) -> Tensor:
    """The exchange itself, without gradients."""
    out = rows.new_empty((sum(taken), *rows.shape[1:]))
    dist.all_to_all_single(out, rows.contiguous(), list(taken), list(given))
    return out


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, given: list[int], taken: list[int]) -> Tensor:
        ctx.given, ctx.taken = given, taken
        return moved(rows, given, taken)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return moved(gradient, ctx.taken, ctx.given), None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        whole = part.new_empty((dist.get_world_size() * len(part), *part.shape[1:]))
        dist.all_gather_into_tensor(whole, part.contiguous())
        return whole

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        whole = gradient.contiguous()
        dist.all_reduce(whole)
        return whole.chunk(dist.get_world_size())[dist.get_rank()]
