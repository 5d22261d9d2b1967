"""One of two workers: the same training under one strategy after another, each over whole periods.

seldom.py MODEL PERIOD OUT STRATEGY ...      an empty strategy is plain training

Rank 0 writes the mean step of each in seconds: the median period over its steps. The first period
of each is not counted, for in it nothing is under way yet.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parent))

import paceline
from models import MODELS, Task

PERIODS = 4
PLAIN_STEPS = 6


def main() -> None:
    name, period, out, *wanted = sys.argv[1:]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    task = MODELS[name]()
    model = DistributedDataParallel(task.model, bucket_cap_mb=25)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    train(task, model, optimizer, 3)
    steps = {text: _mean_step(text, task, model, optimizer, int(period)) for text in wanted}
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps(steps))
    del model  # DDP's reducer holds the group; it must go first
    dist.barrier()
    dist.destroy_process_group()


def _mean_step(
    text: str, task: Task, model: Any, optimizer: torch.optim.Optimizer, period: int
) -> float:
    under: AbstractContextManager[Any] = (
        paceline.applied([text], model, optimizer) if text else nullcontext()
    )
    length, times = (period, PERIODS) if text else (1, PLAIN_STEPS)
    with under:
        dist.barrier()
        marks = list(_marks(task, model, optimizer, length, times))
    return statistics.median(b - a for a, b in pairwise(marks)) / length


def _marks(
    task: Task, model: Any, optimizer: torch.optim.Optimizer, length: int, times: int
) -> Iterator[float]:
    for _ in range(1 + times):
        train(task, model, optimizer, length)
        yield time.perf_counter()


def train(task: Task, model: Any, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        task.loss(model(task.inputs), task.targets).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
