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

sys.path.insert(0, str(Path(__file__).parent))

import paceline
from stage_training import pictures

ROWS = 64  # of a worker's batch
RATE, MOMENTUM = 0.05, 0.9  # the rate falls to zero, a step at a time


@dataclass(frozen=True)
class Data:
    """All images, in the memory of each worker."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


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
    model = nn.parallel.DistributedDataParallel(classifier(seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    steps = len(data.train[0]) // (ROWS * dist.get_world_size())
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (epochs * steps))
    plan = [strategy] if strategy else []
    with paceline.applied(plan, model, optimizer) as sent:
        for epoch in range(epochs):
            order = torch.randperm(len(data.train[0]), generator=_drawn(1000 * seed + epoch))
            mine = order[dist.get_rank() :: dist.get_world_size()]
            for step in range(steps):
                _step(model, optimizer, data.train, mine[step * ROWS : (step + 1) * ROWS])
                rate.step()
        wire = sent.wire_bytes
    return {"accuracy": accuracy(model, data.test), "wire_bytes": wire}


def classifier(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def accuracy(model: nn.Module, test: tuple[Tensor, Tensor]) -> float:
    with torch.no_grad():
        return float((model(test[0]).argmax(1) == test[1]).double().mean())


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, train: tuple[Tensor, Tensor], rows: Tensor
) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(train[0][rows]), train[1][rows]).backward()
    optimizer.step()


def _drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


if __name__ == "__main__":
    main()
