"""Long vectors in blocks that stay in a processor's cache, so that what stands between two passes
costs no memory traffic, and no new memory in each step."""

from collections.abc import Iterator

import torch

_VALUES = 1 << 16


def blocks(*vectors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same stretch of each of the equally long vectors; on an accelerator all at once."""
    size = _VALUES if vectors[0].device.type == "cpu" else max(1, vectors[0].numel())
    return zip(*(vector.split(size) for vector in vectors))


def room(like: torch.Tensor) -> torch.Tensor:
    """For what is found of one block."""
    return like.new_empty(_VALUES if like.device.type == "cpu" else like.numel())
