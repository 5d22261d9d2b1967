"""Small networks for images of 28 x 28: one with a choice of normalisation, one that can grow."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

_CLASSES = 10
_GROUPS = 4

_NORMS: Mapping[str, Callable[[int], nn.Module]] = {
    "none": lambda channels: nn.Identity(),
    "batch": nn.BatchNorm2d,
    "group": lambda channels: nn.GroupNorm(_GROUPS, channels),
}


def convolutional(norm: str, seed: int) -> nn.Module:
    """Two convolutions and a linear layer: 20,500 weights, 0.3 million multiplications a sample."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2), _NORMS[norm](16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), _NORMS[norm](32), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 49, _CLASSES),
    )  # fmt: skip


class Growing(nn.Module):
    """Four blocks whose weights are spread over the last three, each with a head of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_blocks())
        self.heads = nn.ModuleList(_head() for _ in self.blocks)

    def forward(self, inputs: Tensor, stage: int) -> Tensor:
        for block in self.blocks[: stage + 1]:
            inputs = block(inputs)
        answer: Tensor = self.heads[stage](inputs)
        return answer


def growing(seed: int) -> nn.Module:
    """33,500 weights with all heads."""
    torch.manual_seed(seed)
    return Growing()


def grown(seed: int) -> nn.Module:
    """What `growing` becomes, with its last head alone: what is trained without growing."""
    torch.manual_seed(seed)
    return nn.Sequential(*_blocks(), _head())


def _blocks() -> list[nn.Module]:
    return [_block(1, 32, 2), Residual(32, 2), Residual(32, 1), Residual(32, 1)]


class Residual(nn.Module):
    """Adds to its input what begins as nothing, so that at first it changes nothing but its size
    (He et al., "Bag of Tricks for Image Classification", 2019: the last norm begins at 0)."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, stride=stride, padding=1)
        self.norm = nn.GroupNorm(_GROUPS, channels)
        nn.init.zeros_(self.norm.weight)
        self.shrink = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        added: Tensor = self.shrink(inputs) + self.norm(self.convolution(inputs))
        return torch.relu(added)


def _block(inputs: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1),
        nn.GroupNorm(_GROUPS, outputs),
        nn.ReLU(),
    )


def _head() -> nn.Module:
    pooled = (nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return nn.Sequential(*pooled, nn.Linear(32 * 4, _CLASSES))


MODELS: Mapping[str, Callable[[int], nn.Module]] = {
    "cnn": partial(convolutional, "none"),
    "cnn-batch-norm": partial(convolutional, "batch"),
    "cnn-group-norm": partial(convolutional, "group"),
    "growing": growing,
    "grown": grown,
}
"""By name, from a seed."""
