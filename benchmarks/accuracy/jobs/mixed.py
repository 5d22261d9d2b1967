"""A DDP training of a small convolutional net whose batches a DataLoader deals; times each step.

mixed.py STEPS [--unweighted] [STRATEGY ...]

Under these strategies; prints one JSON object per worker, with the loss of each global batch.
`--unweighted`: gradients of unequal batches count alike, which is wrong, and must show in the loss.
"""

import json
import sys
import time
from itertools import pairwise, repeat
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import paceline
from paceline.runtime import torch_uneven

BATCH, SIDE, WARM, CLASSES = 32, 24, 4, 10


def model() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
    for layer in layers:
        if isinstance(layer, nn.Conv2d):  # as torch draws them, four layers learn nothing for long
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES))


def images(count: int) -> TensorDataset:
    """Noise of ten colours: the colour is what is to be learnt."""
    given = torch.Generator().manual_seed(1)
    colours = torch.randn(CLASSES, 3, 1, 1, generator=given)
    labels = torch.randint(CLASSES, (count,), generator=given)
    noise = torch.randn(count, 3, SIDE, SIDE, generator=given)
    return TensorDataset(colours[labels] + noise, labels)


def main(steps: int, plan: list[str]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    replica = nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.02)
    data = images(BATCH * dist.get_world_size() * steps)
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data))
    with paceline.applied(plan, replica, optimizer):
        took, losses = train(replica, optimizer, loader)
    print(json.dumps({"steps_s": took[WARM:], "losses": losses}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def train(replica: Any, optimizer: Any, loader: Any) -> tuple[list[float], list[float]]:
    """Seconds between updates, and of each global batch the mean loss of its samples."""
    ends, summed = [time.perf_counter()], []
    for given, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(replica(given), labels)
        loss.backward()
        optimizer.step()
        ends.append(time.perf_counter())
        summed.append([loss.item() * len(given), float(len(given))])
    whole = torch.tensor(summed, dtype=torch.float64)
    dist.all_reduce(whole)
    return [b - a for a, b in pairwise(ends)], (whole[:, 0] / whole[:, 1]).tolist()


if __name__ == "__main__":
    words = sys.argv[2:]
    if "--unweighted" in words:
        words.remove("--unweighted")
        torch_uneven.Dealt.weights = lambda dealt: repeat(1.0)  # type: ignore[method-assign]
    main(int(sys.argv[1]), words)
