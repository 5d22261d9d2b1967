"""One of two workers: Fashion-MNIST under one strategy after another; test accuracy of each.

torchrun --nproc-per-node 2 convergence_worker.py DATA EPOCHS 'SEED STRATEGY' ...

Rank 0 prints one JSON row for each training: accuracy, and bytes that a worker put on the wire. An
empty strategy is plain training. What a strategy refuses is its row.
"""

import json
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(Path(__file__).parent))

import convergence_stages
import paceline
from paceline.strategies import name_of, parse
from stage_training import pictures

ROWS = 64  # of a worker's batch
RATE, MOMENTUM = 0.05, 0.9  # the rate falls to zero, a step at a time
OF_STAGES = frozenset({"border_topk"})  # strategies of pipelines


@dataclass(frozen=True)
class Data:
    """All images, in the memory of each worker."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


class Taken(Dataset[tuple[Tensor, Tensor]]):
    """Images of these rows, a batch at a time."""

    def __init__(self, data: tuple[Tensor, Tensor], rows: Tensor) -> None:
        self.data, self.rows = data, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, places: list[int]) -> tuple[Tensor, Tensor]:
        rows = self.rows[places]
        return self.data[0][rows], self.data[1][rows]


def main() -> None:
    folder, epochs, *wanted = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=300))
    data = Data(pictures(Path(folder), "train"), pictures(Path(folder), "t10k"))
    for text in wanted:
        seed, _, strategy = text.partition(" ")
        try:
            row = trained(data, int(seed), strategy, int(epochs))
        except paceline.PacelineError as error:
            row = {"refused": str(error)}
        if dist.get_rank() == 0:
            print(json.dumps({"strategy": strategy, "seed": int(seed), **row}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def trained(data: Data, seed: int, strategy: str, epochs: int) -> dict[str, Any]:
    """Accuracy after the strategy has been left."""
    if strategy and name_of(type(parse(strategy))) in OF_STAGES:
        return in_stages(data, seed, strategy, epochs)
    model = nn.parallel.DistributedDataParallel(classifier(seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    seen, samples = 0, len(data.train[0]) // (ROWS * dist.get_world_size()) * ROWS * epochs
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1 - seen / samples)
    plan = [strategy] if strategy else []
    with paceline.applied(plan, model, optimizer) as sent:
        for epoch in range(epochs):
            for images, labels in loader(data, _drawn(1000 * seed + epoch)):
                _step(model, optimizer, images, labels)
                seen += len(labels)
                rate.step()
        wire = sent.wire_bytes
    return {"accuracy": accuracy(model, data.test), "wire_bytes": wire}


def in_stages(data: Data, seed: int, strategy: str, epochs: int) -> dict[str, Any]:
    """The same batches, those of both workers together."""
    model, rows = classifier(seed), ROWS * dist.get_world_size()
    orders = (
        torch.randperm(len(data.train[0]), generator=_drawn(1000 * seed + epoch))
        for epoch in range(epochs)
    )
    taken = [part for order in orders for part in order.split(rows) if len(part) == rows]
    batches = [(data.train[0][part], data.train[1][part]) for part in taken]
    told = convergence_stages.trained(model, batches, strategy, RATE, MOMENTUM)
    return {"accuracy": accuracy(model, data.test), **told}


def loader(data: Data, drawn: torch.Generator) -> DataLoader[tuple[Tensor, Tensor]]:
    """This worker's share of an epoch: whole batches, as a plan may make them."""
    order = torch.randperm(len(data.train[0]), generator=drawn)
    mine = Taken(data.train, order[dist.get_rank() :: dist.get_world_size()])
    return DataLoader(mine, ROWS, drop_last=True, collate_fn=lambda batch: batch)


def classifier(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def accuracy(model: nn.Module, test: tuple[Tensor, Tensor]) -> float:
    with torch.no_grad():
        return float((model(test[0]).argmax(1) == test[1]).double().mean())


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor
) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def _drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


if __name__ == "__main__":
    main()
