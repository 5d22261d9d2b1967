"""One stage, or one border, measured alone: what planners need to know before any pipeline runs.

A stage works on random numbers of the given shape, through the same code as in the pipeline but
without neighbours: batches of `microbatches` forward and backward passes and an update.
"""

import time
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from paceline.runtime.stages.torch_border import Before, Behind, Border
from paceline.runtime.stages.torch_live import LiveBytes
from paceline.runtime.stages.torch_stage import Loss, Piece, Stage
from paceline.runtime.stages.torch_versions import WeightVersions


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


def measure_stage(
    name: str,
    module: nn.Module,
    sample: Sample,
    optimizer: torch.optim.Optimizer,
    *,
    loss: Loss | None = None,
    versions: int = 1,
    microbatches: int = 4,
    repeats: int = 20,
) -> StageMeasure:
    """Times and sizes of a stage; `versions` is 2 where 2BW's copy belongs to the update.

    Times are those of the batch that a tenth of the batches beat: other work on the machine only
    ever adds to a time.
    """
    bench = _Bench(Piece(module, loss), WeightVersions(module, versions), sample, optimizer)
    kept, made = bench.kept_bytes(), bench.made
    bench.batch(microbatches)
    batches = sorted((bench.batch(microbatches) for _ in range(repeats)), key=sum)
    passes_and_update = batches[round(0.1 * (repeats - 1))]
    forward, backward = (round(ns / microbatches) for ns in passes_and_update[:2])
    update = passes_and_update[2]
    return StageMeasure(
        name, forward, backward, update, _bytes(list(module.parameters())), kept,
        _bytes([sample.given]), 0 if loss else _bytes([made]),
    )  # fmt: skip


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


@dataclass
class _Bench:
    piece: Piece
    versions: WeightVersions
    sample: Sample
    optimizer: torch.optim.Optimizer

    def __post_init__(self) -> None:
        self.stage = Stage(self.piece)
        self.made = torch.empty(0)

    def batch(self, microbatches: int) -> tuple[int, int, int]:
        """ns of all forwards, all backwards and the update."""
        forward = backward = 0
        version = self.versions.newest
        leaves = self.versions.leaves(version)
        for _ in range(microbatches):
            given = self._given()
            start = time.perf_counter_ns()
            self.made = self.stage.forward(0, given, leaves, self.sample.target)
            middle = time.perf_counter_ns()
            self.stage.backward(0, self._gradient())
            forward, backward = forward + middle - start, backward + time.perf_counter_ns() - middle
        start = time.perf_counter_ns()
        self.versions.update(self.optimizer, version)
        return forward, backward, time.perf_counter_ns() - start

    def kept_bytes(self) -> int:
        """Alive between forward and backward of a micro-batch; its input too, unless it is data."""
        with LiveBytes() as live:
            given = self._given()
            leaves = self.versions.leaves(self.versions.newest)
            self.made = self.stage.forward(0, given, leaves, self.sample.target)
            kept = live.bytes
        self.stage.backward(0, self._gradient())
        return kept

    def _given(self) -> Tensor:
        """The first stage reads the data; the others get a message of their own."""
        given = self.sample.given
        return given if self.sample.first else given.clone().requires_grad_()

    def _gradient(self) -> Tensor | None:
        return None if self.piece.loss else torch.randn_like(self.made)


def _bytes(tensors: list[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)
