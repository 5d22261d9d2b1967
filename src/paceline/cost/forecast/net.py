"""A small network of two hidden layers: what the formulas leave over, learned and evaluated in
NumPy.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
_LEAK = np.float32(0.1)
_FAR = 3.0
"""Inputs are held within so many deviations of what was learned from: beyond, nothing is known."""


@dataclass(frozen=True, eq=False)
class Net:
    """`mean` and `scale` of each input, then weights and biases of each layer."""

    mean: Array
    scale: Array
    layers: tuple[tuple[Array, Array], ...]

    def __call__(self, inputs: Array) -> Array:
        hidden = np.clip((inputs - self.mean) * self.scale, -_FAR, _FAR)
        for weights, bias in self.layers[:-1]:
            hidden = hidden @ weights
            hidden += bias
            hidden = np.maximum(hidden, hidden * _LEAK)
        weights, bias = self.layers[-1]
        result: Array = (hidden @ weights + bias)[:, 0]
        return result


@dataclass(frozen=True)
class Learning:
    """How a net is learned: absolute error, Adam, a rate that falls to zero."""

    hidden: tuple[int, int] = (32, 32)
    steps: int = 1500
    batch: int = 512
    rate: float = 8e-3
    decay: float = 1e-3
    seed: int = 0


def learn(inputs: Array, wanted: Array, weight: Array, how: Learning) -> Net:
    """The net whose output is nearest `wanted`; `weight` is how often a row is drawn."""
    rng = np.random.default_rng(how.seed)
    spread = inputs.std(0)
    scale = np.where(spread > 1e-6, 1 / np.maximum(spread, 1e-6), 0).astype(np.float32)
    net = Net(inputs.mean(0).astype(np.float32), scale, _start(inputs.shape[1], how, rng))
    parts = [part for layer in net.layers for part in layer]
    means = [np.zeros_like(part) for part in parts]
    squares = [np.zeros_like(part) for part in parts]
    chance = np.cumsum(weight / weight.sum())
    for step in range(1, how.steps + 1):
        rows = np.searchsorted(chance, rng.random(how.batch)).clip(0, len(inputs) - 1)
        rate = how.rate * _warm_and_fall(step / how.steps)
        for part, slope, mean, square in zip(
            parts, _slopes(net, inputs[rows], wanted[rows]), means, squares
        ):
            mean += 0.1 * (slope - mean)
            square += 0.005 * (slope**2 - square)
            adapted = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.995**step)) + 1e-8)
            part -= np.float32(rate) * (adapted + how.decay * part)
    return net


def _start(width: int, how: Learning, rng: np.random.Generator) -> tuple[tuple[Array, Array], ...]:
    sizes = (width, *how.hidden, 1)
    pairs = list(pairwise(sizes))
    gains = [np.sqrt(2 / fan_in) for fan_in, _ in pairs[:-1]] + [0.0]  # begins at the formulas
    return tuple(
        ((rng.standard_normal(pair) * gain).astype(np.float32), np.zeros(pair[1], np.float32))
        for pair, gain in zip(pairs, gains)
    )


def _warm_and_fall(done: float) -> float:
    return min(1.0, done / 0.2) * 0.5 * (1 + float(np.cos(np.pi * done)))


def _slopes(net: Net, inputs: Array, wanted: Array) -> list[Array]:
    """Gradients of the mean absolute error, layer by layer, weights then bias."""
    seen = [np.clip((inputs - net.mean) * net.scale, -_FAR, _FAR)]
    for weights, bias in net.layers[:-1]:
        raw = seen[-1] @ weights + bias
        seen.append(np.maximum(raw, raw * _LEAK))
    weights, bias = net.layers[-1]
    left = (seen[-1] @ weights + bias)[:, 0] - wanted
    back = (np.sign(left) / len(left)).astype(np.float32)[:, None]
    found: list[Array] = []
    for at in range(len(net.layers) - 1, -1, -1):
        found = [seen[at].T @ back, back.sum(0), *found]
        if at:
            back = (back @ net.layers[at][0].T) * np.where(seen[at] > 0, np.float32(1), _LEAK)
    return found
