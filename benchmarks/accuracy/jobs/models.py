"""Seven small models whose steps are spent in different ways, each with its data and its loss.

mlp: 25 MB of gradients in six large layers, little compute. resnet20: 1 MB of gradients in 65
tensors, much compute, buffers broadcast every step. transformer: 14 MB in 52 tensors. lstm: a
language model, half of whose 15 MB are one embedding. wide: few wide convolutions, 9 MB. stack:
convolutions, norms, ReLUs and poolings in one sequence, 0.5 MB. separate: a transformer whose
queries, keys and values are layers of their own, 7 MB.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Task:
    """A model and one step's batch for it."""

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]


def mlp(batch: int = 128, width: int = 1024, layers: int = 6) -> Task:
    stack = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    targets = torch.randint(width, (batch,))
    return Task(
        nn.Sequential(*stack[:-1]), torch.randn(batch, width), targets, functional.cross_entropy
    )


def resnet20(batch: int = 16) -> Task:
    shapes = [(16, 16, 1)] * 3 + [(16, 32, 2), (32, 32, 1), (32, 32, 1)]
    shapes += [(32, 64, 2), (64, 64, 1), (64, 64, 1)]
    blocks = [Block(inner, outer, stride) for inner, outer, stride in shapes]
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    targets = torch.randint(10, (batch,))
    model = nn.Sequential(*stem, *blocks, *head)
    return Task(model, torch.randn(batch, 3, 32, 32), targets, functional.cross_entropy)


def transformer(batch: int = 8, length: int = 32, words: int = 1000) -> Task:
    return Task(
        Language(words),
        torch.randint(words, (batch, length)),
        torch.randint(words, (batch * length,)),
        lambda out, want: functional.cross_entropy(out.flatten(0, 1), want),
    )


def lstm(batch: int = 16, length: int = 24, words: int = 8000) -> Task:
    return Task(
        Recurrent(words),
        torch.randint(words, (batch, length)),
        torch.randint(words, (batch * length,)),
        lambda out, want: functional.cross_entropy(out.flatten(0, 1), want),
    )


def wide(batch: int = 8, width: int = 256) -> Task:
    shapes = [(3, width), (width, width), (width, width), (width, width)]
    parts = [
        part
        for inner, outer in shapes
        for part in (nn.Conv2d(inner, outer, 3, 2, 1), nn.BatchNorm2d(outer), nn.ReLU())
    ]
    model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(4 * width, 100))
    targets = torch.randint(100, (batch,))
    return Task(model, torch.randn(batch, 3, 32, 32), targets, functional.cross_entropy)


def stack(batch: int = 16) -> Task:
    shapes: list[tuple[int, ...]] = [(3, 32), (32, 32), (), (32, 64), (64, 64), ()]
    parts: list[nn.Module] = []
    for shape in shapes:
        if shape:
            convolution = nn.Conv2d(*shape, 3, padding=1)
            parts += [convolution, nn.BatchNorm2d(shape[1]), nn.ReLU()]
        else:
            parts += [nn.MaxPool2d(2)]
    model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(64 * 8 * 8, 10))
    targets = torch.randint(10, (batch,))
    return Task(model, torch.randn(batch, 3, 32, 32), targets, functional.cross_entropy)


def separate(batch: int = 8, length: int = 64, width: int = 256) -> Task:
    model = nn.Sequential(*(Attending(width) for _ in range(3)), nn.Linear(width, 10))
    targets = torch.randint(10, (batch * length,))
    return Task(
        model,
        torch.randn(batch, length, width),
        targets,
        lambda out, want: functional.cross_entropy(out.flatten(0, 1), want),
    )


class Attending(nn.Module):
    """Attention by three products of one input, and a feed-forward part."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values, self.out = (nn.Linear(width, width) for _ in range(4))
        self.ahead = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self._cut(part(x)) for part in (self.queries, self.keys, self.values))
        seen = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        found: Tensor = x + self.out(seen)
        return found + self.ahead(found)

    def _cut(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class Recurrent(nn.Module):
    """Two LSTM layers between a large embedding and a projection."""

    def __init__(self, words: int, width: int = 192) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.LSTM(width, width, 2, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        shown: Tensor = self.out(self.layers(self.embed(x))[0])
        return shown


class Block(nn.Module):
    """Two convolutions and a way around them (He et al. 2016, CIFAR)."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm_one = nn.BatchNorm2d(outer)
        self.two = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm_two = nn.BatchNorm2d(outer)
        self.around = nn.Identity()
        if stride != 1:
            self.around = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm_one(self.one(x)))
        return functional.relu(self.norm_two(self.two(y)) + self.around(x))


class Language(nn.Module):
    """A four-layer encoder with an embedding before and a projection after it."""

    def __init__(self, words: int, width: int = 256) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.embed = nn.Embedding(words, width)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.out = nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        shown: Tensor = self.out(self.layers(self.embed(x)))
        return shown


MODELS: dict[str, Callable[[], Task]] = {
    "mlp": mlp,
    "resnet20": resnet20,
    "transformer": transformer,
    "lstm": lstm,
    "wide": wide,
    "stack": stack,
    "separate": separate,
}
