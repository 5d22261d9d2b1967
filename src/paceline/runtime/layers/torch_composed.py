"""A weight that is a product of several, W = W_N ... W_1, each a linear layer without a bias.

`composed` makes as many square factors before the last as are asked for (LoRITa, Li et al., 2024);
`thin` makes two of a given rank. Both begin balanced: W = U S V' gives each factor its root of S.
"""

from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from paceline.runtime.layers.torch_structured import Structure


class Composed(Structure):
    """`factors` in the order of the forward pass."""

    def __init__(self, factors: list[Tensor]) -> None:
        super().__init__()
        for i, factor in enumerate(factors):
            self.register_parameter(f"factor_{i}", nn.Parameter(factor))

    def forward(self, inputs: Tensor) -> Tensor:
        return reduce(linear, self.parameters(), inputs)

    def dense(self) -> Tensor:
        first, *others = self.parameters()
        return reduce(lambda made, factor: factor @ made, others, first.data)


def composed(weight: Tensor, depth: int) -> Composed:
    """So many factors, all but the last square, whose product is the weight."""
    u, s, v = torch.linalg.svd(weight, full_matrices=False)
    root = s ** (1 / depth)
    inner = (v.T * root) @ v
    return Composed([inner.clone() for _ in range(depth - 1)] + [(u * root) @ v])


def thin(weight: Tensor, rank: int) -> Composed:
    """Two factors of that rank, whose product is nearest to the weight."""
    u, s, v = torch.linalg.svd(weight, full_matrices=False)
    root = s[:rank].sqrt()
    return Composed([(v[:rank].T * root).T.contiguous(), (u[:, :rank] * root).contiguous()])


def truncated(weight: Tensor, rank: int, energy: float) -> Tensor:
    """The weight of its largest singular values: `rank` of them, or (0) as many as hold that share
    of the sum of their squares."""
    u, s, v = torch.linalg.svd(weight, full_matrices=False)
    held = torch.cumsum(s.square(), 0) / s.square().sum().clamp_min(torch.finfo(s.dtype).tiny)
    kept = rank or int((held < energy).sum()) + 1
    return (u[:, :kept] * s[:kept]) @ v[:kept]
