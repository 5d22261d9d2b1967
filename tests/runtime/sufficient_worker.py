"""Trains plainly and under sufficient_factors on batches of even, uneven and growing rows; writes
how far the weights end from plain training's, and what else a test asks about.

torchrun --nproc-per-node N sufficient_worker.py OUT
"""

import gc
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import paceline

ALL = "sufficient_factors(rows=1)"
TWO = "sufficient_factors(rows=1, layers='*.0|*.2')"

OF_DDP = ("static_graph", "gradient_as_bucket_view")


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    Training.begun(sgd, {})
    gc.freeze()  # what that imported: every plan looks for the model among all other objects
    rank = dist.get_rank()
    rows = {
        "even": [5] * 6,
        "uneven": [3 + 4 * rank] * 6,
        "growing": [2, 5 + rank, 9, 1, 12 - rank],
    }
    told: dict[str, Any] = {
        f"{name} {layers}": beside([text], each)
        for name, each in rows.items()
        for layers, text in (("all", ALL), ("some", TWO))
    }
    told["buckets"] = beside([TWO, "buckets(size_bytes=64)"], rows["uneven"])
    told["fused"] = beside([ALL, "fused_optimizer"], rows["even"], adam)
    told["views"] = beside([TWO], rows["even"], gradient_as_bucket_view=True)
    told["static"] = beside([TWO], rows["even"], static_graph=True)
    told["clipped"] = beside([ALL], rows["even"], clips=True)
    told["passes"] = beside([ALL], rows["uneven"], passes=True)
    told["positions"] = beside([ALL], rows["uneven"], wide=True)
    told["lone rows"] = beside([ALL], rows["even"], flat=True)
    told["rounded"] = beside([ALL], rows["even"], rounded=True)
    told["recomputed"] = beside([ALL], rows["even"], recomputed=True)
    told["zero"] = beside([ALL], rows["even"], zero)
    told["broken"] = beside([ALL], rows["even"], breaks=True)
    (Path(sys.argv[1]) / f"rank-{rank}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters: Any) -> Any:
    return torch.optim.Adam(parameters, lr=0.01)


def zero(parameters: Any) -> Any:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return ZeroRedundancyOptimizer(parameters, torch.optim.SGD, lr=0.1, momentum=0.9)


class Net(nn.Module):
    """Three linear layers, of which one has no bias."""

    def __init__(self, how: dict[str, bool]) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16, bias=False), nn.Tanh(), nn.Linear(16, 4)
        )
        self.how = how

    def forward(self, inputs: Any) -> Any:
        passes: Callable[[Any], Any] = self.layers
        if self.how.get("wide"):  # samples and positions, which do not follow one another
            inputs = inputs.view(len(inputs), 3, 4).transpose(0, 1).repeat(1, 1, 3)
        if self.how.get("flat"):
            return torch.stack([self.layers(each) for each in inputs])
        if self.how.get("recomputed"):
            return checkpoint(passes, inputs, use_reentrant=False)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.how.get("rounded", False)):
            return passes(inputs).float()


@dataclass
class Training:
    """One job, and what its batches are drawn from."""

    model: Any
    optimizer: Any
    drawn: torch.Generator

    @staticmethod
    def begun(optimizer: Callable[[Any], Any], how: dict[str, bool]) -> "Training":
        torch.manual_seed(1)
        ddp = {
            name: how[name] for name in ("static_graph", "gradient_as_bucket_view") if name in how
        }
        model = DistributedDataParallel(Net(how), **ddp)
        drawn = torch.Generator().manual_seed(7 + dist.get_rank())
        made = Training(model, optimizer(model.parameters()), drawn)
        made.trained([4, 4], how)
        return made

    def trained(self, batches: Sequence[int], how: dict[str, bool]) -> None:
        passes = 3 if how.get("passes") else 1
        for count in batches:
            self.optimizer.zero_grad()
            for turn in range(passes):
                inputs = torch.randn(count, 12, generator=self.drawn)
                with self.model.no_sync() if turn < passes - 1 else nullcontext():
                    self.model(inputs).square().mean().backward()
            if how.get("clips"):
                nn.utils.clip_grad_norm_(self.model.parameters(), 0.01)
            self.optimizer.step()

    def weights(self) -> Any:
        return torch.cat([each.detach().flatten() for each in self.model.parameters()])


def beside(
    plan: list[str],
    batches: Sequence[int],
    optimizer: Callable[[Any], Any] = sgd,
    **how: bool,
) -> dict[str, Any]:
    """Under the plan, and behind it."""
    plain, under = Training.begun(optimizer, how), Training.begun(optimizer, how)
    start = plain.weights()
    plain.trained(batches, how)
    try:
        with paceline.applied(plan, under.model, under.optimizer) as sent:
            under.trained(batches, how)
            if how.get("breaks"):
                raise KeyError("the script's own")
    except KeyError:
        pass
    weights = under.weights()
    far, moved = (float((weights - other).abs().max()) for other in (plain.weights(), start))
    plain.trained([3, 3], how)
    under.trained([3, 3], how)
    after = float((under.weights() - plain.weights()).abs().max())
    counted = {"steps": sent.steps, **sent.a_step()}
    left = not any("forward" in vars(module) for module in under.model.modules())
    return {"far": far, "moved": moved, "after": after, "weights": weights.tolist(),
            "sent": counted, "left": left}  # fmt: skip


if __name__ == "__main__":
    main()
