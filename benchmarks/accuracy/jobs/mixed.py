"""A DDP training of a small convolutional net whose batches a DataLoader deals; times each step.

mixed.py STEPS [STRATEGY ...]      under these strategies; prints one JSON object per worker
"""

import json
import sys
import time
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import paceline

BATCH, SIDE, WARM = 32, 24, 4


def model() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def main(steps: int, plan: list[str]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    replica = nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.05)
    given = torch.Generator().manual_seed(1)
    count = BATCH * dist.get_world_size() * steps
    data = TensorDataset(
        torch.randn(count, 3, SIDE, SIDE, generator=given),
        torch.randint(10, (count,), generator=given),
    )
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data))
    with paceline.applied(plan, replica, optimizer):
        took, loss = train(replica, optimizer, loader)
    print(json.dumps({"steps_s": took[WARM:], "loss": loss}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def train(replica: Any, optimizer: Any, loader: Any) -> tuple[list[float], float]:
    """Seconds between updates, and the mean loss of all workers' samples in the last batch."""
    ends, total = [time.perf_counter()], torch.zeros(2)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(replica(images), labels)
        loss.backward()
        optimizer.step()
        ends.append(time.perf_counter())
        total = torch.tensor([loss.item() * len(images), float(len(images))])
    dist.all_reduce(total)
    return [b - a for a, b in pairwise(ends)], float(total[0] / total[1])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
