"""One stage measured alone: what the planners need to know before any pipeline runs.

The stage works on random numbers of the given shape, through the same code as in the pipeline but
without neighbours: batches of `microbatches` forward and backward passes and an update.
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

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
