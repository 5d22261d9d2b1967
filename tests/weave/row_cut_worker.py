"""A tensor-parallel pair of layers, trained plain and with overlapped sums.

torchrun --nproc-per-node 2 row_cut_worker.py OUT
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import paceline


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(12, 16), nn.Linear(16, 12)

    def forward(self, given: Any) -> Any:
        return self.down(torch.relu(self.up(given)))


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told = {"plain": trained(None), "overlapped": trained("overlapped_products(chunks=3)")}
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def trained(text: str | None) -> dict[str, Any]:
    torch.manual_seed(1)
    mesh = init_device_mesh("cpu", (2,))
    model = parallelize_module(Pair(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(7)
    losses = [step(model, optimizer, data)]
    if text is None:
        losses += [step(model, optimizer, data) for _ in range(6)]
    else:
        with paceline.applied([text], model, optimizer):
            losses += [step(model, optimizer, data) for _ in range(5)]
            inside = "forward" in vars(model.down)
        assert inside
        assert "forward" not in vars(model.down)
        losses.append(step(model, optimizer, data))
    whole = [p.full_tensor().detach().flatten() for p in model.parameters()]
    return {"losses": losses, "weights": torch.cat(whole).tolist()}


def step(model: nn.Module, optimizer: torch.optim.Optimizer, data: torch.Generator) -> float:
    given = torch.randn(4, 5, 12, generator=data)
    optimizer.zero_grad()
    loss = (model(given) - given).square().mean()
    loss.backward()
    optimizer.step()
    return float(loss)


if __name__ == "__main__":
    main()
