"""Four small models, each a plain `nn.Sequential` of blocks, so that every parallelism can cut it.

A model comes with the loss and the random batches it trains on.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Task:
    """A model and what it trains on."""

    model: nn.Sequential
    batch: Callable[[int], tuple[Tensor, Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]


def mlp() -> Task:
    """Six layers of 1,024: 25 MB of gradients."""
    layers = [nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()) for _ in range(6)]
    return Task(nn.Sequential(*layers, nn.Linear(1024, 10)), _vectors(1024), F.cross_entropy)


def small() -> Task:
    """Four narrow layers: a step of well under 1,000 ops in about a millisecond."""
    layers = [nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(4)]
    return Task(nn.Sequential(*layers, nn.Linear(256, 10)), _vectors(256), F.cross_entropy)


def cnn() -> Task:
    """Three convolutions and a classifier on 28 by 28 images."""
    model = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten()),
        nn.Linear(64 * 7 * 7, 10),
    )
    return Task(model, _images(1, 28), F.cross_entropy)


def resnet20() -> Task:
    """ResNet-20 of the CIFAR experiments: three stages of three residual blocks."""
    blocks: list[nn.Module] = [nn.Sequential(_conv(3, 16, 1), nn.ReLU())]
    width = 16
    for stage, out in enumerate((16, 32, 64)):
        for block in range(3):
            stride = 2 if stage and not block else 1
            blocks.append(Residual(width, out, stride))
            width = out
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return Task(nn.Sequential(*blocks, head), _images(3, 32), F.cross_entropy)


def transformer(layers: int = 12, width: int = 128, words: int = 512, length: int = 64) -> Task:
    """A causal language model of twelve layers."""
    blocks = [Block(width, heads=4) for _ in range(layers)]
    head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words))

    def batch(size: int) -> tuple[Tensor, Tensor]:
        text = torch.randint(words, (size, length + 1))
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def loss(logits: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    return Task(nn.Sequential(Embedding(words, length, width), *blocks, head), batch, loss)


class Residual(nn.Module):
    """Two 3 by 3 convolutions beside a shortcut."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = _conv(width, out, stride)
        self.second = _conv(out, out, 1)
        same = stride == 1 and width == out
        self.shortcut = nn.Identity() if same else nn.Conv2d(width, out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class Embedding(nn.Module):
    """Word and position."""

    def __init__(self, words: int, length: int, width: int) -> None:
        super().__init__()
        self.word = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.zeros(length, width))

    def forward(self, text: Tensor) -> Tensor:
        return self.word(text) + self.position


class Block(nn.Module):
    """Attention and a feed-forward net, each behind a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def attention(self, x: Tensor) -> Tensor:
        q, k, v = (self._heads(part(x)) for part in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)


def _conv(width: int, out: int, stride: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(width, out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(out)
    )


def _vectors(width: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    return lambda size: (torch.randn(size, width), torch.randint(10, (size,)))


def _images(channels: int, side: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    return lambda size: (torch.randn(size, channels, side, side), torch.randint(10, (size,)))


MODELS: dict[str, Callable[[], Task]] = {
    "small": small,
    "mlp": mlp,
    "cnn": cnn,
    "resnet20": resnet20,
    "transformer": transformer,
}
