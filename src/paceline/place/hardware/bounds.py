"""What no plan of a model on a fleet can beat, from the times of its layers alone.

With d copies a pipeline has devices / d devices. Its s stages do all the work, and the transfers at
their s - 1 borders, so its slowest stage is at least an even share of both, on at most s times the
widest width of devices, and at least its longest layer. A batch takes ceil(micro-batches / d) + s
- 1 rounds of that, and the first stage, which holds the first layer at least, averages its
parameters over the copies. The least over all d and s is a bound.
"""

from functools import cache
from math import ceil

import numpy as np

from paceline.place.hardware.models import Model, chain
from paceline.place.hardware.plan import Fleet, LayerTimes
from paceline.place.operators.problem import Floats


def least_seconds(model: Model, batch: int, fleet: Fleet, times: LayerTimes) -> float:
    """No plan with micro-batches of this size trains one global batch faster."""
    widths = model.widths(fleet.most_width)
    alone = np.array([_stage_seconds(model, batch, width, fleet, times) for width in widths])
    work = float((alone * np.array(widths)[:, None]).min(axis=0).sum())
    longest = float(alone.min(axis=0).max())
    copies, stages, rounds = _grid(fleet, batch, alone.shape[1])
    border, first = _least_sizes(model, batch, fleet)
    share = np.minimum(fleet.devices // copies, stages * max(widths))
    moved = 2 * border / fleet.link_bytes_per_s * (stages - 1)
    load = np.maximum(longest, (work + moved) / share)
    averaging = 4 * (copies - 1) / copies * first / fleet.link_bytes_per_s
    return float((load * rounds + averaging).min())


def _stage_seconds(
    model: Model, batch: int, width: int, fleet: Fleet, times: LayerTimes
) -> list[float]:
    """Of each layer on `width` devices: both passes, and the all-reduces that the width costs."""
    ring = 4 * (width - 1) / width / fleet.link_bytes_per_s
    return [sum(times(x)) + ring * x.all_reduce_bytes for x in chain(model, batch, width)]


@cache
def _grid(fleet: Fleet, batch: int, layers: int) -> tuple[Floats, Floats, Floats]:
    """Copies (a column) and stages (a row) worth trying, and their rounds: of all numbers of
    copies that need equally many rounds the least leaves each copy the most devices."""
    count = ceil(fleet.global_batch / batch)
    copies = np.arange(1, min(fleet.devices, count) + 1)
    runs = np.ceil(count / copies)
    first = np.unique(runs, return_index=True)[1]
    stages = np.arange(1, layers + 1, dtype=np.float64)
    column = copies[first].astype(np.float64)[:, None]
    return column, stages[None, :], runs[first][:, None] + stages[None, :] - 1


@cache
def _least_sizes(model: Model, batch: int, fleet: Fleet) -> tuple[float, float]:
    """Bytes of the smallest border, and of the first layer's parameters at the widest."""
    chains = [chain(model, batch, width) for width in model.widths(fleet.most_width)]
    border = min(layer.input_bytes for layer in chains[0][1:])
    return border, min(layers[0].parameter_bytes for layers in chains)
