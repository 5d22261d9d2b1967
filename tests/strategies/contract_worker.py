"""A worker of the contract test: trains under each strategy, and writes what came of it.

torchrun --nproc-per-node 2 contract_worker.py OUT STRATEGY[ + STRATEGY...] ...
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import paceline
from paceline.strategies.plan import Plan

STEPS, AFTER = 20, 3


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    plain = trained(None)
    told = {"": plain, **{text: trained(text) for text in sys.argv[2:]}}
    told["broken"] = {"said": broken(), "after": trained(None)["losses"] == plain["losses"]}
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def job() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
    )
    replica = nn.parallel.DistributedDataParallel(model)
    return replica, torch.optim.SGD(replica.parameters(), lr=0.05)


def trained(text: str | None) -> dict[str, Any]:
    """Some plain steps, the strategy's, and some plain ones again."""
    model, optimizer = job()
    data = torch.Generator().manual_seed(7 + dist.get_rank())
    losses = [step(model, optimizer, data) for _ in range(AFTER)]
    keys = list(model.state_dict())
    if text is None:
        losses += [step(model, optimizer, data) for _ in range(STEPS)]
        return {"losses": losses, "weights": weights(model), "keys": keys}
    with paceline.applied(text.split(" + "), model, optimizer) as sent:
        losses += [step(model, optimizer, data) for _ in range(STEPS)]
        under, kept = weights(model), list(model.state_dict())
        counted = {"steps": sent.steps, **sent.a_step()}
    return {
        "losses": losses,
        "weights": under,
        "keys": kept,
        "sent": counted,
        **restored(model, data),
    }


def restored(model: nn.Module, data: torch.Generator) -> dict[str, Any]:
    """After the strategy: the same steps as a fresh replica of the same weights takes."""
    fresh, optimizer = job()
    fresh.load_state_dict(model.state_dict())
    state = data.get_state()
    theirs = [step(fresh, optimizer, data) for _ in range(AFTER)]
    data.set_state(state)
    again = torch.optim.SGD(model.parameters(), lr=0.05)
    ours = [step(model, again, data) for _ in range(AFTER)]
    return {"after": ours, "fresh": theirs}


def broken() -> str:
    """A plan whose second strategy fails in `apply`."""
    from paceline.strategies.buckets import Buckets
    from paceline.strategies.workers import Workers

    model, optimizer = job()
    try:
        with paceline.applied(Plan((Buckets(100), Workers(99))), model, optimizer):
            raise AssertionError("a plan for 99 workers was entered")
    except paceline.PacelineError as error:
        return str(error)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, data: torch.Generator) -> float:
    inputs = torch.randn(32, 20, generator=data)
    wanted = inputs[:, :4].abs()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean)
    return float(mean) / dist.get_world_size()


def weights(model: nn.Module) -> list[float]:
    """As a checkpoint has them."""
    return torch.cat([tensor.flatten() for tensor in model.state_dict().values()]).tolist()


if __name__ == "__main__":
    main()
