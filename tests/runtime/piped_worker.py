"""A worker that trains a small language model as a stage of a pipeline, in the ways scripts have.

torchrun --nproc-per-node 4 piped_worker.py OUT
"""

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import paceline

WORDS, WIDTH, STEPS = 11, 10, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(self.norm(x)).relu()).view(x.shape)


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.ones(WIDTH), requires_grad=False)
        self.blocks = nn.ModuleList(Block() for _ in range(6))
        self.register_buffer("shift", torch.full((WIDTH,), 0.1))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(x + self.shift)


class Job:
    """A script: it keeps its parameters in a list, clips them, and has a schedule."""

    def __init__(self, kind: Callable[..., Any] = torch.optim.Adam, passes: int = 2) -> None:
        torch.manual_seed(1)
        self.model = DistributedDataParallel(Language())
        self.mine = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = kind(self.mine, lr=0.01)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.data = torch.Generator().manual_seed(dist.get_rank())
        self.passes, self.clips = passes, True
        self.losses: list[float] = []
        self.norms: list[float] = []

    def train(self, steps: int = STEPS, samples: int = 16) -> "Job":
        for _ in range(steps):
            self.optimizer.zero_grad()
            for number in range(self.passes):
                last = number == self.passes - 1
                with nullcontext() if last else self.model.no_sync():
                    self.passed(samples)
            if self.clips:
                self.norms.append(nn.utils.clip_grad_norm_(self.mine, 0.5).item())
            self.optimizer.step()
            self.schedule.step()
        return self

    def passed(self, samples: int) -> None:
        words = torch.randint(WORDS, (samples,), generator=self.data)
        loss = nn.functional.cross_entropy(self.model(words), (words + 1) % WORDS)
        loss.backward()
        self.losses.append(loss.item())

    def under(self, plan: str) -> Any:
        return paceline.applied([plan], self.model, self.optimizer)

    def evaluated(self) -> list[float]:
        """As one rank alone may, by the inner model."""
        self.model.eval()
        with torch.no_grad():
            found = self.model.module(torch.arange(4)).flatten().tolist()
        self.model.train()
        return list(found)

    @property
    def held(self) -> list[float]:
        """Weights, buffers, and the optimizer's state."""
        states = [value for _, state in sorted(self.optimizer.state_dict()["state"].items())
                  for _, value in sorted(state.items()) if value is not None]  # fmt: skip
        tensors = [*self.model.state_dict().values(), *states]
        return torch.cat([tensor.detach().flatten().double() for tensor in tensors]).tolist()


def trained(plan: str, kind: Callable[..., Any], *, cut: bool) -> dict[str, Any]:
    job = Job(kind).train(1)
    with job.under(plan) if cut else nullcontext():
        job.train()
        under = job.held
        job.train(1, 10)  # the last batch of an epoch, which does not divide
    after = job.train(1).held
    return {"under": under, "after": after, "losses": job.losses, "norms": job.norms}


PLANS = {
    "gpipe of 2": "pipeline(stages=2, microbatches=4, schedule='gpipe')",
    "1f1b of 2": "pipeline(stages=2, microbatches=4)",
    "1f1b of 4": "pipeline(stages=4, microbatches=8)",
    "zero-bubble": "pipeline(stages=2, microbatches=4, schedule='zero-bubble')",
    "interleaved": "pipeline(stages=2, microbatches=4, schedule='interleaved', chunks=2)",
}


def main() -> None:
    dist.init_process_group("gloo")
    told: dict[str, Any] = {"plain": trained("", torch.optim.Adam, cut=False)}
    for name, plan in PLANS.items():
        told[name] = trained(plan, torch.optim.Adam, cut=True)
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
