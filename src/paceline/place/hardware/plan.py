"""A model on many accelerators: which layers form a stage, tensor width of each, copies, batch.

The dynamic program is Piper's (PHAZE's placement): stages are laid from the last one backwards, a
stage's load is its forward and backward time plus the transfers it waits for, and a stage with s
stages to the end keeps s - 1 micro-batches stashed, or recomputes. A batch then takes
load * (ceil(micro-batches / copies) + stages - 1), and the first stage's parameters are averaged.
**When it is wrong:** that averaging counts the first stage alone and overlaps nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from paceline.engine import native
from paceline.place.hardware.models import Chained, LayerDemand
from paceline.place.operators.problem import Floats, PlacementError

GIB = 2**30
STATE_COPIES = 2.0  # parameters and gradients; SGD keeps nothing else


@dataclass(frozen=True)
class AcceleratorFleet:
    """How many accelerators, how they are joined, and the batch they share."""

    devices: int = 1024
    link_bytes_per_s: float = 4.0 * GIB
    global_batch: int = 4096
    micro_batches: tuple[int, ...] = (1, 2, 4, 8, 16)
    most_width: int = 8
    recompute: bool = True


@dataclass(frozen=True)
class StagePlan:
    """Layers [first, last) on `width` devices."""

    first: int
    last: int
    width: int
    recomputes: bool
    load_s: float
    memory_bytes: float


@dataclass(frozen=True)
class ModelPlan:
    """How one model runs; `seconds` is one global batch, infinite where nothing fits."""

    seconds: float
    micro_batch: int
    replicas: int
    stages: tuple[StagePlan, ...]

    def samples_per_s(self, fleet: AcceleratorFleet) -> float:
        return fleet.global_batch / self.seconds  # 0 where nothing fits


NOTHING_FITS = ModelPlan(inf, 0, 0, ())

LayerTimes = Callable[[LayerDemand], tuple[float, float]]
"""Forward and backward compute seconds of one layer on one device."""


@dataclass(frozen=True, eq=False)
class Layers:
    """Flat arrays of one micro-batch size: rows are widths, columns layers."""

    widths: NDArray[np.int32]
    forward_s: Floats
    backward_s: Floats
    state_bytes: Floats
    parameter_bytes: Floats
    activation_bytes: Floats
    input_bytes: Floats
    bytes_per_s: float
    memory_bytes: float
    devices: int
    micro_batches: int
    recompute: bool
    beat_s: float = inf  # slower plans are of no use


def layers_of(
    model: Chained, batch: int, fleet: AcceleratorFleet, hbm_bytes: float, times: LayerTimes
) -> Layers:
    """Price every layer at every width; equal layers are priced once."""
    widths = model.widths(fleet.most_width)
    chains = [model.chain(batch, width) for width in widths]
    rows: list[list[tuple[float, float]]] = []
    for width, layers in zip(widths, chains):
        ring = 2 * (width - 1) / width / fleet.link_bytes_per_s
        priced = {layer: times(layer) for layer in dict.fromkeys(layers)}
        rows.append(
            [
                (priced[x][0] + ring * x.all_reduce_bytes, priced[x][1] + ring * x.all_reduce_bytes)
                for x in layers
            ]
        )
    table = np.array(rows, np.float64)
    parameters = np.array([[x.parameter_bytes for x in layers] for layers in chains])
    return Layers(
        widths=np.array(widths, np.int32),
        forward_s=table[:, :, 0].ravel(),
        backward_s=table[:, :, 1].ravel(),
        state_bytes=(parameters * STATE_COPIES).ravel(),
        parameter_bytes=parameters.ravel(),
        activation_bytes=np.array([x.activation_bytes for own in chains for x in own]),
        input_bytes=np.array([x.input_bytes for x in chains[0]]),
        bytes_per_s=fleet.link_bytes_per_s,
        memory_bytes=hbm_bytes,
        devices=fleet.devices,
        micro_batches=ceil(fleet.global_batch / batch),
        recompute=fleet.recompute,
    )


def best_plan(layers: Layers, micro_batch: int) -> ModelPlan:
    """The fastest plan of one micro-batch size, if it takes less than `layers.beat_s`."""
    core = native()
    if core is None:
        raise PlacementError(
            "planning hardware needs the native core, which is not built or is turned off; "
            "install Paceline with a C++ compiler, and unset PACELINE_ENGINE"
        )
    found = core.plan_layers(layers)
    if found is None:
        return NOTHING_FITS
    seconds, replicas, stages = found
    return ModelPlan(seconds, micro_batch, replicas, tuple(StagePlan(*stage) for stage in stages))


def fixed_plan(layers: Layers, micro_batch: int, stages: int, width: int) -> ModelPlan:
    """The plan of a fixed split: equal runs of layers, one width, copies on all devices."""
    count = len(layers.input_bytes)
    replicas = min(layers.devices // (stages * width), layers.micro_batches)
    if width not in layers.widths or stages > count or replicas < 1:
        return NOTHING_FITS
    bounds = [round(i * count / stages) for i in range(stages + 1)]
    w = layers.widths.tolist().index(width)
    made = [
        stage_of(layers, w, first, last, stages - i)
        for i, (first, last) in enumerate(pairwise(bounds))
    ]
    if any(stage is None for stage in made):
        return NOTHING_FITS
    kept = tuple(stage for stage in made if stage is not None)
    return ModelPlan(batch_seconds(layers, w, kept, replicas), micro_batch, replicas, kept)


def batch_seconds(layers: Layers, w: int, stages: tuple[StagePlan, ...], replicas: int) -> float:
    """One global batch: the pipeline's rounds, and averaging the first stage's parameters."""
    count = len(layers.input_bytes)
    own = layers.parameter_bytes.reshape(-1, count)[w, : stages[0].last]
    sync = 4 * (replicas - 1) / replicas * float(own.sum()) / layers.bytes_per_s
    rounds = ceil(layers.micro_batches / replicas) + len(stages) - 1
    return max(stage.load_s for stage in stages) * rounds + sync


def stage_of(layers: Layers, w: int, first: int, last: int, to_end: int) -> StagePlan | None:
    """Layers [first, last) with `to_end` stages from here on; None where memory forbids."""
    count = len(layers.input_bytes)
    here = slice(w * count + first, w * count + last)
    live = float(layers.activation_bytes[here].sum())
    state = float(layers.state_bytes[here].sum())
    ends = (layers.input_bytes[first] if first else 0.0) + (
        layers.input_bytes[last] if last < count else 0.0
    )
    for recomputes, stash in ((False, live), (True, float(layers.input_bytes[first]))):
        memory = state + live + (to_end - 1) * stash
        allowed = not recomputes or (layers.recompute and to_end > 1)
        if allowed and memory <= layers.memory_bytes:
            forward = float(layers.forward_s[here].sum()) * (2 if recomputes else 1)
            load = forward + float(layers.backward_s[here].sum()) + ends / layers.bytes_per_s
            width = int(layers.widths[w])
            return StagePlan(first, last, width, recomputes, float(load), memory)
    return None
