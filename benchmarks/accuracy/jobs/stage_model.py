"""The model whose stages benchmarks/accuracy/pipeline.py times, and data that costs nothing."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

LAYERS, WIDTH, CLASSES = 8, 512, 10
loss = nn.functional.cross_entropy


def model() -> nn.Sequential:
    """Eight equal blocks; the last has its ReLU replaced by the classes."""
    torch.manual_seed(1)
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS - 1)]
    return nn.Sequential(*blocks, nn.Linear(WIDTH, CLASSES))


def optimizer(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)


@dataclass(frozen=True)
class Same:
    """One micro-batch again and again, so that making data costs nothing."""

    given: Tensor
    target: Tensor

    def inputs(self, microbatch: int) -> Tensor:
        return self.given

    def targets(self, microbatch: int) -> Tensor:
        return self.target


def same(rows: int) -> Same:
    return Same(torch.randn(rows, WIDTH), torch.randint(CLASSES, (rows,)))
