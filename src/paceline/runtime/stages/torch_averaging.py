"""The replicas of one stage take the mean of their gradients: one all-reduce a batch."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def average(gradients: Sequence[Tensor], group: Any, replicas: int) -> int:
    """In place; the bytes that were reduced."""
    whole = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(whole, group=group)
    whole /= replicas
    parts = whole.split([g.numel() for g in gradients])
    torch._foreach_copy_(list(gradients), [p.view_as(g) for p, g in zip(parts, gradients)])
    return int(whole.numel() * whole.element_size())
