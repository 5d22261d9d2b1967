"""A stage, a model's layers, or a border, measured without neighbours: what planners need to know
before any pipeline runs.

Each works on random numbers of the given shape, through the same code as in the pipeline: batches
of `microbatches` forward and backward passes and an update.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from paceline.runtime.stages.torch_border import Before, Behind, Border
from paceline.runtime.stages.torch_live import LiveBytes
from paceline.runtime.stages.torch_stage import Loss, Piece, Stage
from paceline.runtime.stages.torch_versions import Leaves, WeightVersions

Clock = Callable[[], int]
Took = tuple[int, int, int]
"""ns of all forward passes of a batch, of all backward passes, and of the update."""


@dataclass(frozen=True)
class StageMeasure:
    """Of one micro-batch; the keys of a planner's profile."""

    name: str
    forward_ns: int
    backward_ns: int
    update_ns: int
    weight_bytes: int
    kept_bytes: int
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class Sample:
    """What a stage is given: its input, whether it must pass a gradient on, targets at the end."""

    given: Tensor
    first: bool
    target: Tensor | None = None


@dataclass(frozen=True)
class TrainedLayer:
    """A layer, or a whole stage, with what its training needs; the last one has the loss."""

    name: str
    module: nn.Module
    sample: Sample
    optimizer: torch.optim.Optimizer
    loss: Loss | None = None


def measure_stage(
    stage: TrainedLayer, *, versions: int = 1, microbatches: int = 4, repeats: int = 20
) -> StageMeasure:
    """Times and sizes of a stage; `versions` is 2 where 2BW's copy belongs to the update."""
    (found,) = measure_layers(
        [stage], versions=versions, microbatches=microbatches, repeats=repeats
    )
    return found


def measure_layers(
    layers: Sequence[TrainedLayer],
    *,
    versions: int = 1,
    microbatches: int = 4,
    repeats: int = 20,
    clock: Clock = time.perf_counter_ns,
) -> list[StageMeasure]:
    """The same of layers of one model, in turn as the model runs them: alone, a layer's weights
    would stay in caches that are too small for the model's (half the time where a micro-batch is
    small). Where processes share cores, `clock` is `time.thread_time_ns`.

    Times are those of the batch that a tenth of the batches beat: other work on the machine only
    ever adds to a time.
    """
    benches = [_Bench(layer, WeightVersions(layer.module, versions), clock) for layer in layers]
    kept = [bench.kept_bytes() for bench in benches]
    _batch(benches, microbatches)
    batches = [_batch(benches, microbatches) for _ in range(repeats)]
    return [
        _told(bench, bytes_, sorted(took, key=sum)[round(0.1 * (repeats - 1))], microbatches)
        for bench, bytes_, took in zip(benches, kept, zip(*batches))
    ]


def _told(bench: "_Bench", kept: int, took: Took, microbatches: int) -> StageMeasure:
    layer = bench.layer
    forward, backward = (round(ns / microbatches) for ns in took[:2])
    weights = _bytes(list(layer.module.parameters()))
    given, made = _bytes([layer.sample.given]), 0 if layer.loss else _bytes([bench.made])
    return StageMeasure(layer.name, forward, backward, took[2], weights, kept, given, made)


def _batch(benches: Sequence["_Bench"], microbatches: int) -> list[Took]:
    """Of each; micro-batch by micro-batch through all of them and back."""
    leaves = [bench.leaves() for bench in benches]
    passes = []
    for _ in range(microbatches):
        ahead = [bench.forward(mine) for bench, mine in zip(benches, leaves)]
        back = [bench.backward() for bench in reversed(benches)][::-1]
        passes.append(list(zip(ahead, back)))
    return [
        (sum(ahead for ahead, _ in mine), sum(back for _, back in mine), bench.update())
        for bench, mine in zip(benches, zip(*passes))
    ]


def measure_border(activations: Tensor, border: Border, repeats: int = 60) -> dict[str, int]:
    """Nanoseconds of the four halves of a border for a micro-batch, by the names of
    `place.pipeline.Packing`: each one's time that a tenth of its repeats beat, the first apart."""
    before, behind = Before(border), Behind(border)
    took: dict[str, list[int]] = {name: [] for name in _HALVES}
    for number in range(repeats + 1):
        ends = [time.perf_counter_ns()]
        message = before.close(activations, number)
        ends.append(time.perf_counter_ns())
        behind.open(message, number)
        ends.append(time.perf_counter_ns())
        gradient = behind.masked(activations, number)
        ends.append(time.perf_counter_ns())
        before.gradient(gradient, number)
        ends.append(time.perf_counter_ns())
        for name, (begin, end) in zip(_HALVES, pairwise(ends)):
            took[name].append(end - begin)
    return {name: sorted(times[1:])[repeats // 10] for name, times in took.items()}


_HALVES = ("close_ns", "open_ns", "mask_ns", "restore_ns")


class _Bench:
    """Runs one layer, timed."""

    def __init__(self, layer: TrainedLayer, versions: WeightVersions, clock: Clock) -> None:
        self.layer, self.versions, self._clock = layer, versions, clock
        self.stage = Stage(Piece(layer.module, layer.loss))
        self.made = torch.empty(0)

    def leaves(self) -> Leaves:
        return self.versions.leaves(self.versions.newest)

    def forward(self, leaves: Leaves) -> int:
        given = self._given()
        start = self._clock()
        self.made = self.stage.forward(0, given, leaves, self.layer.sample.target)
        return self._clock() - start

    def backward(self) -> int:
        start = self._clock()
        self.stage.backward(0, self._gradient())
        return self._clock() - start

    def update(self) -> int:
        start = self._clock()
        self.versions.update(self.layer.optimizer, self.versions.newest)
        return self._clock() - start

    def kept_bytes(self) -> int:
        """Alive between forward and backward of a micro-batch; its input too, unless it is data."""
        with LiveBytes() as live:
            given, leaves = self._given(), self.leaves()
            self.made = self.stage.forward(0, given, leaves, self.layer.sample.target)
            kept = live.bytes
        self.stage.backward(0, self._gradient())
        return kept

    def _given(self) -> Tensor:
        """The first stage reads the data; the others get a message of their own."""
        given = self.layer.sample.given
        return given if self.layer.sample.first else given.clone().requires_grad_()

    def _gradient(self) -> Tensor | None:
        return None if self.layer.loss else torch.randn_like(self.made)


def _bytes(tensors: list[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)
