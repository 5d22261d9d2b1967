"""A model for tests: twice its input, or what the first number of a sample asks for."""

import os
import time

import torch

DIES, RAISES, HANGS = 666.0, 777.0, 888.0


class Doubling(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(4) * 2)

    def forward(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        asked = set(rows[:, 0].tolist())
        if DIES in asked:
            os._exit(3)
        if RAISES in asked:
            raise IndexError("no such row")
        if HANGS in asked:
            time.sleep(3600)
        return {"doubled": rows @ self.weight, "sum": rows.sum(1)}


def build() -> tuple[torch.nn.Module, torch.Tensor]:
    return Doubling(), torch.ones(1, 4)


def pair() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    class Adding(torch.nn.Module):
        def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            return left + right

    return Adding(), {"left": torch.zeros(1, 2), "right": torch.zeros(1, 2, dtype=torch.int64)}


def wrong() -> torch.nn.Module:
    return Doubling()


class Images(torch.nn.Module):
    """Convolutions with and without a batch norm, one of them called in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.two = torch.nn.Conv2d(8, 8, 3, 2, bias=False)
        self.three, self.norm_three = torch.nn.Conv2d(8, 4, 1), torch.nn.BatchNorm2d(4)
        self.last = torch.nn.Linear(4, 5)
        with torch.no_grad():
            for norm in (self.norm, self.norm_three):
                norm.running_mean.uniform_(-1, 1)
                norm.running_var.uniform_(0.5, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = torch.relu(self.norm(self.one(images)))
        found = self.two(found) + torch.conv2d(found, self.two.weight, stride=2, padding=0)
        found = torch.conv2d(found, self.two.weight)  # once more, with other strides
        return self.last(self.norm_three(self.three(found)).mean((2, 3)))


def images() -> tuple[torch.nn.Module, torch.Tensor]:
    return Images(), torch.randn(1, 3, 16, 16)


class Layers(torch.nn.Module):
    """Products with and without a bias, by a weight and by a transposed one, whose flow of control
    torch.fx cannot follow."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(width, width, bias=False)
        self.attention = torch.nn.MultiheadAttention(width, 2, batch_first=True)
        self.weight = torch.nn.Parameter(torch.randn(width, width))
        self.bias = torch.nn.Parameter(torch.randn(width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        found = self.first(rows) if len(rows) else rows
        found = found + self.attention(found, found, found)[0]
        flat = torch.addmm(self.bias, found.flatten(0, 1), self.weight)
        return flat.view_as(found) @ torch.ones(rows.shape[-1], 3)


def layers() -> tuple[torch.nn.Module, torch.Tensor]:
    return Layers(64), torch.randn(1, 7, 64)


class Changing(torch.nn.Module):
    """Changes its layer's weight before each call."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.layer.weight.mul_(2)
        return self.layer(given)


def changing() -> tuple[torch.nn.Module, torch.Tensor]:
    return Changing(torch.nn.Linear(4, 4, bias=False)), torch.ones(1, 4)


def changing_with_bias() -> tuple[torch.nn.Module, torch.Tensor]:
    return Changing(torch.nn.Linear(4, 4)), torch.ones(1, 4)


def changing_images() -> tuple[torch.nn.Module, torch.Tensor]:
    return Changing(torch.nn.Conv2d(3, 4, 3)), torch.ones(1, 3, 8, 8)
