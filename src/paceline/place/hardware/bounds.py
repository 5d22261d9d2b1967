"""What no plan of a model on a fleet can beat, from the times of its layers alone.

With d copies a pipeline has K = devices / d devices. For any weights a, b >= 0 let a stage of w
devices count a + b w: all s stages count a s + b K at most, and each lasts the load of the slowest
at most. A layer at width w takes its time, and a border two transfers, of what counts a + b w. So

    load >= (sum over layers of the least time(w) (a + b w) + 2 border (s - 1) (a + b))
            / (a s + b K)

and a batch takes ceil(micro-batches / d) + s - 1 rounds of it, and the averaging of the first
stage's parameters, which are those of the first layer at least. The first layer's width decides
how many they are, so each is tried. The least over widths, d and s of the best of some weights is
a bound.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil

import numpy as np

from paceline.place.hardware.models import Chained, LayerDemand
from paceline.place.hardware.plan import AcceleratorFleet, LayerTimes
from paceline.place.operators.problem import Floats

WEIGHTS = ((0.0, 1.0), (1.0, 0.0), (0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (4.0, 1.0))
"""Pairs (a, b): devices alone, stages alone, and mixtures."""


def least_seconds(model: Chained, batch: int, fleet: AcceleratorFleet, times: LayerTimes) -> float:
    """No plan with micro-batches of this size trains one global batch faster."""
    facts = _facts(model, batch, fleet)
    pairs = np.array([[times(layer) for layer in row] for row in facts.layers])
    alone = pairs.sum(axis=2) + facts.rings  # by width and kind of layer
    longest = alone[:, 1:].min(axis=0).max()
    return min(
        _with_first(facts, alone, at, max(float(alone[at, 0]), float(longest)))
        for at in range(len(facts.widths))
    )


def _with_first(facts: "_Facts", alone: Floats, at: int, longest: float) -> float:
    """The bound where the first layer has the width number `at`."""
    load = np.full_like(facts.rounds, longest)
    for a, b in WEIGHTS:
        weight = a + b * facts.widths
        least = (alone[:, 1:] * weight[:, None]).min(axis=0) @ facts.counts[1:]
        work = least + alone[at, 0] * weight[at] + facts.moved * (a + b)
        load = np.maximum(load, work / (a * facts.stages + b * facts.devices))
    return float((load * facts.rounds + facts.averaging * facts.first[at]).min())


@dataclass(frozen=True, eq=False)
class _Facts:
    """What does not depend on the template. Kinds of layers: the first one, then the others; copies
    are a column, stages a row."""

    layers: tuple[tuple[LayerDemand, ...], ...]  # by width and kind
    counts: Floats  # how many layers there are of each kind
    rings: Floats  # seconds of all-reduces, by width and kind
    widths: Floats
    first: Floats  # seconds to send the first layer's parameters, by width
    stages: Floats
    devices: Floats
    rounds: Floats
    moved: Floats  # seconds of all transfers at borders
    averaging: Floats


@cache
def _facts(model: Chained, batch: int, fleet: AcceleratorFleet) -> _Facts:
    widths = model.widths(fleet.most_width)
    chains = [model.chain(batch, width) for width in widths]
    kinds = [tuple(dict.fromkeys(layers)) for layers in chains]
    rate, count = fleet.link_bytes_per_s, ceil(fleet.global_batch / batch)
    copies, runs = _copies(min(fleet.devices, count), count)
    stages = np.arange(1, len(chains[0]) + 1, dtype=np.float64)[None, :]
    border = min(layer.input_bytes for layer in chains[0][1:])
    return _Facts(
        layers=tuple(kinds),
        counts=np.array([chains[0].count(layer) for layer in kinds[0]], np.float64),
        rings=np.array(
            [
                [4 * (w - 1) / w / rate * x.all_reduce_bytes for x in k]
                for w, k in zip(widths, kinds)
            ]
        ),
        widths=np.array(widths, np.float64),
        first=np.array([k[0].parameter_bytes / rate for k in kinds]),
        stages=stages,
        devices=fleet.devices // copies,
        rounds=runs + stages - 1,
        moved=2 * border / rate * (stages - 1),
        averaging=4 * (copies - 1) / copies,
    )


def _copies(most: int, micro_batches: int) -> tuple[Floats, Floats]:
    """Numbers of copies worth trying, and the micro-batches of each: of all that need equally many
    rounds the least leaves each copy the most devices."""
    copies = np.arange(1, most + 1, dtype=np.float64)
    runs = np.ceil(micro_batches / copies)
    first = np.unique(runs, return_index=True)[1]
    return copies[first][:, None], runs[first][:, None]
