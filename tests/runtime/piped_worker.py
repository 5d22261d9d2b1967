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
from saved_alone import checkpoints
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
        self.passes, self.clips = passes, passes > 1
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


def delayed(steps: int) -> dict[str, Any]:
    """PipeDream-2BW by its rule, under DDP: each gradient is of weights one update old."""
    job = Job(torch.optim.SGD, passes=1).train(1)
    old = deepcopy(job.model.module.state_dict())
    for _ in range(steps):
        new = deepcopy(job.model.module.state_dict())
        job.model.module.load_state_dict(old)
        job.optimizer.zero_grad()
        job.passed(16)
        job.model.module.load_state_dict(new)
        job.optimizer.step()
        job.schedule.step()
        old = new
    return {"losses": job.losses, "after": job.held}


def two_versions(steps: int) -> dict[str, Any]:
    job = Job(torch.optim.SGD, passes=1).train(1)
    job.clips = False
    with job.under("pipeline(stages=2, microbatches=4, schedule='2bw')"):
        job.train(steps - 1)
        looks = job.evaluated() if not dist.get_rank() else []
        job.train(1)
    return {"losses": job.losses, "after": job.held, "looks": len(looks)}


def crashed() -> dict[str, Any]:
    job, plain = Job().train(1), Job().train(1)
    before = job.held
    try:
        with job.under(PLANS["1f1b of 4"]):
            job.train(2)
            raise KeyError("the script's own")
    except KeyError:
        pass
    return {"alike": job.held == before, "after": job.train(1).held, "plain": _again(plain)}


def _again(plain: Job) -> list[float]:
    """The data of the two steps that were lost is not drawn again, nor is the rate as it was."""
    for _ in range(2 * plain.passes):
        torch.randint(WORDS, (16,), generator=plain.data)
    for _ in range(2):
        plain.schedule.step()
    return plain.train(1).held


def gathered(*, cut: bool) -> list[float]:
    """Two calls of the model before the script goes back, as a loss of pairs has them."""
    job = Job()
    with job.under(PLANS["gpipe of 2"]) if cut else nullcontext():
        for _ in range(2):
            one, other = (
                job.model(torch.randint(WORDS, (8,), generator=job.data)) for _ in range(2)
            )
            job.optimizer.zero_grad()
            (one * other).mean().backward()
            job.optimizer.step()
    return job.held


def held_alone() -> dict[str, Any]:
    """What a worker holds between steps, beside what it held before."""
    job = Job().train(1)
    whole = sum(p.numel() for p in job.mine)
    with job.under(PLANS["1f1b of 4"]):
        job.train(1)
        mine = sum(p.numel() for p in job.mine)
        states = sum(1 for p in job.mine if job.optimizer.state.get(p))
    return {"whole": whole, "mine": mine, "states": states, "count": len(job.mine)}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4)
        self.outer.weight = self.inner.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.inner(x).relu())


class Unseen(nn.Module):
    """What torch.fx does not see: part of it trains without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = self.inner(x)
        return self.outer(x) + self.inner(x)


class Untrained(Unseen):
    """Torch.fx sees gradients where the model gives none."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = self.inner(x)
        return self.outer(x)


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.inner(x)) if x.sum() > -1e9 else x


def two(kind: type[nn.Module] | None = None) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) if kind is None else kind()


def refused() -> dict[str, str]:
    plan = "pipeline(stages=2, microbatches=4)"
    small: dict[str, Callable[[], None]] = {
        "tied": lambda: _steps(two(Tied), plan),
        "unseen": lambda: _steps(two(Unseen), plan),
        "untrained": lambda: _steps(two(Untrained), plan),
        "branching": lambda: _steps(two(Branching), plan),
        "one part": lambda: _steps(nn.Sequential(nn.Linear(4, 4)), plan),
        "few samples": lambda: _steps(two(), plan, samples=1),
        "stages": lambda: _steps(two(), "pipeline(stages=3, microbatches=3)"),
        "begins": lambda: _steps(two(), "pipeline(stages=2, microbatches=2, begins='7')"),
        "unused": lambda: _steps(two(), plan, find_unused_parameters=True),
        "L-BFGS": lambda: _steps(two(), plan, kind=torch.optim.LBFGS),
        "eval": lambda: _steps(two(), plan, evaluates=True),
    }
    return {name: _said(act) for name, act in small.items()}


def _said(act: Callable[[], None]) -> str:
    try:
        act()
    except paceline.PacelineError as error:
        return str(error)
    return "nothing"


def _steps(
    model: nn.Module,
    plan: str,
    *,
    samples: int = 4,
    kind: Callable[..., Any] = torch.optim.SGD,
    evaluates: bool = False,
    **options: Any,
) -> None:
    replica = DistributedDataParallel(model, **options)
    optimizer = kind(replica.parameters(), lr=0.1)
    with paceline.applied([plan], replica, optimizer):
        for _ in range(2):
            replica.train(not evaluates)
            replica(torch.ones(samples, 4)).sum().backward()
            optimizer.step()


def main() -> None:
    dist.init_process_group("gloo")
    told: dict[str, Any] = {"plain": trained("", torch.optim.Adam, cut=False)}
    for name, plan in PLANS.items():
        told[name] = trained(plan, torch.optim.Adam, cut=True)
    told["2bw"] = {"rule": delayed(STEPS), "run": two_versions(STEPS)}
    told["checkpoints"], told["crashed"] = (
        checkpoints(Job, lambda job: job.under(PLANS["1f1b of 4"]), STEPS),
        crashed(),
    )
    told["held alone"], told["refused"] = held_alone(), refused()
    told["gathered"] = [gathered(cut=cut) for cut in (False, True)]
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
