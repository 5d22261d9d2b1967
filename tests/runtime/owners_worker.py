"""A worker that trains with Adam under zero1, and saves a checkpoint on rank 0 alone.

torchrun --nproc-per-node 2 owners_worker.py OUT
"""

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import paceline


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model, optimizer = job()
    with paceline.applied(["zero1"], model, optimizer):
        train(model, optimizer, 3)
        kept = len(optimizer.state)
        saved = checkpoint(model, optimizer) if dist.get_rank() == 0 else None
        left = len(optimizer.state)
        train(model, optimizer, 3, first=3)
    other, closing = job()
    with paceline.applied(["zero1"], other, closing):
        close(other, closing, 6)
    told = {"kept": kept, "left": left, "after": len(optimizer.state), "weights": weights(model)}
    told["plain"], told["closed"] = weights(trained(6)), weights(other)
    if saved is not None:
        told |= {"saved": len(saved[1]["state"]), "resumed": resumed(*saved)}
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def job() -> tuple[Any, Any]:
    torch.manual_seed(1)
    layers = [nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def train(model: Any, optimizer: Any, steps: int, first: int = 0) -> None:
    """Every rank sees the same batches, so one alone learns what all learn."""
    for turn in range(first, first + steps):
        optimizer.zero_grad()
        model(torch.full((4, 6), (1 + turn) / 10)).square().mean().backward()
        optimizer.step()


def close(model: Any, optimizer: Any, steps: int) -> None:
    """The same by closures."""

    def passed(turn: int) -> Any:
        optimizer.zero_grad()
        loss = model(torch.full((4, 6), (1 + turn) / 10)).square().mean()
        loss.backward()
        return loss

    for turn in range(steps):
        optimizer.step(lambda turn=turn: passed(turn))


def checkpoint(model: Any, optimizer: Any) -> Any:
    return deepcopy((model.state_dict(), optimizer.state_dict()))


def trained(steps: int) -> Any:
    model, optimizer = job()
    train(model, optimizer, steps)
    return model


def resumed(weights_saved: Any, state_saved: Any) -> int:
    """How many steps Adam has counted for every parameter of the checkpoint, without zero1."""
    lone = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(lone.parameters(), lr=0.01)
    lone.load_state_dict({name.removeprefix("module."): w for name, w in weights_saved.items()})
    optimizer.load_state_dict(state_saved)
    counts = {int(state["step"]) for state in optimizer.state.values()}
    assert len(counts) == 1
    return counts.pop()


def weights(model: Any) -> list[float]:
    return torch.cat([tensor.flatten() for tensor in model.state_dict().values()]).tolist()


if __name__ == "__main__":
    main()
