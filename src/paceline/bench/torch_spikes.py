"""Layers of spiking neurons, in a loop over time or all of a population at once."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn


def neurons(**settings: Any) -> nn.Module:
    """Leaky integrate-and-fire neurons of snnTorch: a membrane that forgets, a spike beyond one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other libraries, when snnTorch is imported
        import snntorch
    return snntorch.Leaky(beta=0.9, **settings)


def lively(given: int, out: int) -> nn.Module:
    """Weights by which a part of the neurons spikes at its only step; silent ones hardly learn. In
    a loop over time membranes add up, and such weights would make all of them spike."""
    layer = nn.Linear(given, out)
    nn.init.kaiming_normal_(layer.weight)
    return layer


class InTime(nn.Module):
    """The image is shown for so many steps; a class has one neuron, and its spikes are counted."""

    def __init__(self, pixels: int, width: int, classes: int, steps: int) -> None:
        super().__init__()
        self._steps = steps
        self.first, self.second = nn.Linear(pixels, width), nn.Linear(width, classes)
        self.inner, self.outer = neurons(), neurons()

    def forward(self, image: Tensor) -> Tensor:
        inner, outer = self.inner.reset_mem(), self.outer.reset_mem()
        spikes = []
        for _ in range(self._steps):
            spike, inner = self.inner(self.first(image), inner)
            spike, outer = self.outer(self.second(spike), outer)
            spikes.append(spike)
        return torch.stack(spikes).sum(0)


class InPopulation(nn.Module):
    """The image is shown once; a class has many neurons, and those that spike are counted."""

    def __init__(self, pixels: int, width: int, classes: int, population: int) -> None:
        super().__init__()
        self._classes = classes
        self.first = lively(pixels, width)
        self.second = lively(width, classes * population)
        self.inner, self.outer = neurons(), neurons()

    def forward(self, image: Tensor) -> Tensor:
        spike, _ = self.inner(self.first(image), self.inner.reset_mem())
        spike, _ = self.outer(self.second(spike), self.outer.reset_mem())
        return spike.unflatten(1, (self._classes, -1)).sum(-1)
