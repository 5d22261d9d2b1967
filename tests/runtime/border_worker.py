"""A stage of a small pipeline of torch.distributed.pipelining, trained plain and with borders.

torchrun --nproc-per-node 2 border_worker.py OUT
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

import paceline

WIDTH, SAMPLES, BATCHES, STEPS, FIRST = 16, 12, 3, 20, 2


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told = {
        text: trained(text) for text in ("", "border_topk(ratio=1.0)", "border_topk(ratio=0.25)")
    }
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def trained(text: str) -> dict[str, Any]:
    """Some plain steps, the strategy's, and some plain ones again."""
    torch.manual_seed(1)
    rank = dist.get_rank()
    parts = [
        nn.Sequential(nn.Linear(8, WIDTH), nn.Tanh()),
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 4)),
    ]
    part = parts[rank]
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, BATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(7)
    losses = [step(schedule, optimizer, data) for _ in range(FIRST)]
    before = weights(part)
    if not text:
        losses += [step(schedule, optimizer, data) for _ in range(STEPS + FIRST)]
        return {"losses": losses, "weights": weights(part)}
    with paceline.applied([text], part, optimizer) as sent:
        losses += [step(schedule, optimizer, data) for _ in range(STEPS)]
        counted = {"steps": sent.steps, **sent.a_step()}
    losses += [step(schedule, optimizer, data) for _ in range(FIRST)]
    return {
        "losses": losses,
        "weights": weights(part),
        "sent": counted,
        "moved": before != weights(part),
    }


def step(schedule: Any, optimizer: Any, data: torch.Generator) -> float:
    inputs = torch.randn(SAMPLES, 8, generator=data)
    wanted, losses = inputs[:, :4].abs(), list[Any]()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        schedule.step(inputs)
    else:
        schedule.step(target=wanted, losses=losses)
    optimizer.step()
    return float(sum(losses) / max(1, len(losses)))


def weights(part: nn.Module) -> list[float]:
    return torch.cat([p.detach().flatten() for p in part.parameters()]).tolist()


if __name__ == "__main__":
    main()
