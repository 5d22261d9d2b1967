"""Networks of repeated cells: three stages of them, a residual block that halves between two.

A cell has four nodes. Node j is the sum, over the nodes i before it, of an operation on node i:
nothing, the node itself, ReLU with a 1x1 or 3x3 convolution and a norm, or a 3x3 average.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from paceline.imagine.network_space import ImageNetwork

_PAIRS = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))


def cells(network: ImageNetwork) -> Any:
    wide = max(8, round(16 * network.width / 8) * 8)
    deep = max(1, round(3 * network.depth))
    return nn.Sequential(*_parts(network.cell, wide, deep))


def _parts(edges: tuple[int, ...], wide: int, deep: int) -> Iterator[Any]:
    yield nn.Sequential(nn.Conv2d(3, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide))
    for stage in range(3):
        channels = wide << stage
        if stage:
            yield _Halving(channels // 2, channels)
        yield from (_Cell(edges, channels) for _ in range(deep))
    yield nn.Sequential(
        nn.BatchNorm2d(wide << 2), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(wide << 2, 10),
    )  # fmt: skip


class _Cell(nn.Module):
    def __init__(self, edges: tuple[int, ...], channels: int) -> None:
        super().__init__()
        made = (_operation(edge, channels) for edge in edges)
        self.edges = nn.ModuleList(each for each in made)

    def forward(self, given: Any) -> Any:
        nodes = [given]
        for to in range(1, 4):
            sums = [edge(nodes[a]) for (a, b), edge in zip(_PAIRS, self.edges) if b == to]
            found = [each for each in sums if each is not None]
            total = found[0] if found else torch.zeros_like(given)
            for each in found[1:]:
                total = total + each
            nodes.append(total)
        return nodes[-1]


class _Nothing(nn.Module):
    def forward(self, given: Any) -> None:
        return None


class _Halving(nn.Module):
    """ResNet's basic block with a stride of two."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first, self.second = _convolved(before, after, 3, 2), _convolved(after, after, 3)
        self.aside = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(before, after, 1, bias=False))

    def forward(self, given: Any) -> Any:
        return self.second(self.first(given)) + self.aside(given)


def _operation(edge: int, channels: int) -> Any:
    return (
        _Nothing,
        nn.Identity,
        lambda: _convolved(channels, channels, 1),
        lambda: _convolved(channels, channels, 3),
        lambda: nn.AvgPool2d(3, 1, 1, count_include_pad=False),
    )[edge]()


def _convolved(before: int, after: int, kernel: int, stride: int = 1) -> Any:
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(after),
    )
