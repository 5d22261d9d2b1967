"""Trains on equal batches, on uneven ones and on equal ones again; writes losses and weights.

torchrun --nproc-per-node 2 uneven_worker.py OUT
"""

import json
import sys
from itertools import repeat
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import paceline
from paceline.runtime.torch_uneven import Dealt

PLANS = ([], ["uneven_batches(shares=(3.0, 1.0))"], ["uneven_batches(shares=(3.0, 1.0))", "bf16"])
SAMPLES, BATCH, EPOCHS = 50, 4, 3


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told = {" + ".join(plan): trained(plan) for plan in PLANS}
    told["unweighted"] = unweighted()
    told["refused"] = refused()
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def trained(plan: list[str]) -> dict[str, Any]:
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    random = torch.Generator().manual_seed(3)
    data = TensorDataset(
        torch.randn(SAMPLES, 8, generator=random), torch.randint(4, (SAMPLES,), generator=random)
    )
    sampler = DistributedSampler(data, seed=5)
    loader = DataLoader(data, BATCH, sampler=sampler)
    every = DataLoader(data, BATCH)
    sizes: list[int] = []
    evaluated: list[int] = []
    with paceline.applied(plan, model, optimizer):
        for epoch in range(EPOCHS):
            sampler.set_epoch(epoch)
            for given, target in loader:
                sizes.append(len(given))
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(given), target).backward()
                optimizer.step()
            with torch.no_grad():
                evaluated += [len(given) for given, _ in loader]
            evaluated += [len(given) for given, _ in every]
    whole = nn.functional.cross_entropy(model.module(data.tensors[0]), data.tensors[1]).item()
    weights = [value for p in model.parameters() for value in p.flatten().tolist()]
    told = {"sizes": sizes, "loss": whole, "weights": weights, "length": len(loader)}
    return {**told, "evaluated": evaluated}


def unweighted() -> dict[str, Any]:
    """Uneven batches whose gradients count alike."""
    weights = Dealt.weights
    Dealt.weights = lambda dealt: repeat(1.0)  # type: ignore[method-assign]
    try:
        return trained(PLANS[1])
    finally:
        Dealt.weights = weights  # type: ignore[method-assign]


def refused() -> str:
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        with paceline.applied([PLANS[1][0]], model, optimizer):
            next(iter(DataLoader(TensorDataset(torch.zeros(8, 2)), 4)))
    except paceline.PacelineError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
