"""Tensors as one flat vector, and a flat vector as views of their shapes."""

from collections.abc import Sequence

import torch


def flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def views(vector: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    parts = vector.split([tensor.numel() for tensor in like])
    return [part.view_as(tensor) for part, tensor in zip(parts, like)]


def fill(tensors: Sequence[torch.Tensor], vector: torch.Tensor) -> None:
    """Write the vector into the tensors."""
    with torch.no_grad():
        for tensor, part in zip(tensors, views(vector, tensors)):
            tensor.copy_(part)


def blend(tensors: Sequence[torch.Tensor], vector: torch.Tensor, share: float) -> None:
    """Bring the tensors that share of the way to the vector."""
    with torch.no_grad():
        for tensor, part in zip(tensors, views(vector, tensors)):
            tensor.lerp_(part, share)
