"""Fashion-MNIST on two stages: test accuracy under each schedule."""

import gzip
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from paceline.runtime.stages import PipelineSchedule, Task, TaskKind
from paceline.runtime.stages.torch_cut import cut
from paceline.runtime.stages.torch_links import Seat
from paceline.runtime.stages.torch_worker import Data, PipelineJob, StageModule, Worker
from stage_model import loss
from stage_ranks import in_ranks

SCHEDULES = (PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.TWO_BUFFERED)


def train(folder: Path, epochs: int, seed: int) -> dict[str, float]:
    """Test accuracy after training on two stages."""
    images, labels = pictures(folder, "train")

    def rank(seat: Seat) -> dict[str, list[Tensor]]:
        return {s.value: _trained(s, seat, images, labels, epochs, seed) for s in SCHEDULES}

    parts = in_ranks(2, rank)
    return {
        s.value: _accuracy(folder, [w for part in parts for w in part[s.value]]) for s in SCHEDULES
    }


@dataclass(frozen=True)
class Shuffled:
    """Micro-batches of a data set in an order drawn anew for each epoch."""

    images: Tensor
    labels: Tensor
    rows: int
    seed: int

    def inputs(self, microbatch: int) -> Tensor:
        return self.images[self._rows(microbatch)]

    def targets(self, microbatch: int) -> Tensor:
        return self.labels[self._rows(microbatch)]

    def _rows(self, microbatch: int) -> Tensor:
        epoch, at = divmod(microbatch, len(self.images) // self.rows)
        return _order(len(self.images), self.seed * 1000 + epoch)[
            at * self.rows : (at + 1) * self.rows
        ]


@lru_cache(maxsize=2)
def _order(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def classifier(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10), nn.Identity(),
    )  # fmt: skip


def _trained(
    schedule: PipelineSchedule, seat: Seat, images: Tensor, labels: Tensor, epochs: int, seed: int
) -> list[Tensor]:
    part, microbatches, rows = cut(classifier(seed), 2)[seat.stage], 4, 32
    data: Data = Shuffled(images, labels, rows, seed)
    made = torch.optim.Adam(part.parameters(), lr=1e-3)
    batches = epochs * len(images) // (rows * microbatches)
    rate = torch.optim.lr_scheduler.LambdaLR(made, lambda batch: 1 - batch / batches)

    def watch(task: Task) -> None:
        if task.work is TaskKind.UPDATE:
            rate.step()

    worker = Worker(
        PipelineJob(schedule, microbatches), seat, StageModule(part, loss), made, data, watch=watch
    )
    worker.train(batches)
    return [p.detach().numpy() for p in part.parameters()]


def _accuracy(folder: Path, weights: list[Any]) -> float:
    whole = classifier(0)
    images, labels = pictures(folder, "t10k")
    with torch.no_grad():
        for parameter, value in zip(whole.parameters(), weights):
            parameter.copy_(torch.from_numpy(value))
        return float((whole(images).argmax(1) == labels).float().mean())


def pictures(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    pixels = _idx(folder / f"{part}-images-idx3-ubyte", 16).reshape(-1, 784)
    labels = _idx(folder / f"{part}-labels-idx1-ubyte", 8)
    return torch.from_numpy(pixels).float() / 255 - 0.3, torch.from_numpy(labels).long()


def _idx(path: Path, header: int) -> Any:
    packed = path.with_name(path.name + ".gz")
    raw = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return np.frombuffer(raw, np.uint8, offset=header).copy()
