"""A worker of test_torch.py: trains by plain gloo, by the hook, and over the backend.

torchrun --nproc-per-node 2 torch_worker.py OUT
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import paceline.wire.torch_backend
from paceline.wire import Bounds
from paceline.wire.torch_carrier import Carriage
from paceline.wire.torch_hook import bounded_loss_hook

STEPS = 6


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told: dict[str, Any] = {"plain": trained()}
    with bounded_loss_hook(Carriage(Bounds(gradients=0.1))) as hook:
        told["hook"] = trained(hook=hook)
    told["backend"], told["others"] = over_backend()
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def over_backend() -> tuple[list[float], list[float]]:
    """Training in a group of the backend, and what it leaves to gloo."""
    group = dist.new_group(backend=paceline.wire.torch_backend.NAME)
    learnt = trained(group=group)
    counts = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(counts, group=group)  # of integers
    largest = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    sent = torch.full((3,), 2.0 + dist.get_rank())
    dist.broadcast(sent, 1, group=group)
    return learnt, [float(counts), float(largest), float(sent[0])]


def trained(hook: Any = None, group: Any = None) -> list[float]:
    """The weights after some steps."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 4))
    replica = nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.02)
    if hook is not None:
        replica.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(7 + dist.get_rank())
    for _ in range(STEPS):
        inputs = torch.randn(32, 20, generator=data)
        optimizer.zero_grad()
        nn.functional.mse_loss(replica(inputs), inputs[:, :4].abs()).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


if __name__ == "__main__":
    main()
