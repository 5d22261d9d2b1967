"""One stage measured alone: what the planners need to know before any pipeline runs.

The stage works on random numbers of the given shape, through the same code as in the pipeline but
without neighbours: forward, backward, and an update for every `microbatches`.
"""

import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from paceline.runtime.stages.torch_live import LiveBytes
from paceline.runtime.stages.torch_stage import Loss, Piece, Stage
from paceline.runtime.stages.torch_versions import WeightVersions


@dataclass(frozen=True)
class StageMeasure:
    """Medians, of one micro-batch; the keys of a planner's profile."""

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
    repeats: int = 20,
) -> StageMeasure:
    """Times and sizes of a stage; `versions` is 2 where 2BW's copy belongs to the update."""
    bench = _Bench(Piece(module, loss), WeightVersions(module, versions), sample, optimizer)
    kept, made = bench.kept_bytes(), bench.made
    for _ in range(2):
        bench.turn()
    turns = [bench.turn() for _ in range(repeats)]
    forward, backward, update = (round(statistics.median(x)) for x in zip(*turns))
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

    def turn(self) -> tuple[int, int, int]:
        """ns of a forward, a backward and an update."""
        given = self._given()
        version = self.versions.newest
        start = time.perf_counter_ns()
        self.made = self.stage.forward(0, given, self.versions.leaves(version), self.sample.target)
        middle = time.perf_counter_ns()
        self.stage.backward(0, self._gradient())
        end = time.perf_counter_ns()
        self.versions.update(self.optimizer, version)
        return middle - start, end - middle, time.perf_counter_ns() - end

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
