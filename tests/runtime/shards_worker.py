"""A worker that trains a small language model under fully_sharded, in all the ways scripts have.

torchrun --nproc-per-node 3 shards_worker.py OUT
"""

import gc
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
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import paceline

WORDS, WIDTH, STEPS = 11, 10, 4  # none of which three workers share evenly


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A view, to which the model adds in place."""
        return self.down(self.up(self.norm(x)).relu()).view(x.shape)


class Language(nn.Module):
    """With weights that two layers share, that are fixed, and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.ones(WIDTH), requires_grad=False)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm = nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(words) + self.places)
        for block in self.blocks:
            y = block(x)
            y += x
            x = y
        return self.head(x)


class Job:
    """A script: it keeps its parameters in a list, clips them, and has a schedule."""

    def __init__(self, kind: Callable[..., Any] = torch.optim.Adam) -> None:
        torch.manual_seed(1)
        self.model = DistributedDataParallel(Language())
        self.mine = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = kind(self.mine, lr=0.01)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.data = torch.Generator().manual_seed(dist.get_rank())
        self.losses: list[float] = []

    def train(self, steps: int = STEPS) -> "Job":
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.passed(self.model)
            self.passed(self.model)  # gradients add up
            nn.utils.clip_grad_norm_(self.mine, 0.5)
            self.optimizer.step()
            self.schedule.step()
        return self

    def passed(self, model: Any) -> None:
        words = torch.randint(WORDS, (16,), generator=self.data)
        loss = nn.functional.cross_entropy(model(words), (words + 1) % WORDS)
        loss.backward()
        self.losses.append(loss.item())

    def under(self) -> Any:
        return paceline.applied(["fully_sharded"], self.model, self.optimizer)

    def evaluated(self) -> list[float]:
        """As one rank alone may, by the inner model."""
        self.model.eval()
        found = [self.model.module(torch.arange(4)).sum().item()]
        with torch.no_grad():
            found += self.model.module(torch.arange(4)).flatten().tolist()
        self.model.train()
        return found

    @property
    def held(self) -> list[float]:
        """Weights, buffers, and the optimizer's state."""
        states = [value for _, state in sorted(self.optimizer.state_dict()["state"].items())
                  for _, value in sorted(state.items())]  # fmt: skip
        tensors = [*self.model.state_dict().values(), *states]
        return torch.cat([tensor.detach().flatten().double() for tensor in tensors]).tolist()

    @property
    def traces(self) -> list[Any]:
        """What FSDP2 might leave behind on a module."""
        return [
            (type(m).__name__, sorted(vars(m)), [len(vars(m)[n]) for n in vars(m) if "hooks" in n])
            for m in self.model.modules()
        ]


def trained(kind: Callable[..., Any], *, cut: bool) -> dict[str, Any]:
    job = Job(kind).train(1)
    with job.under() if cut else nullcontext():
        job.train()
        under = job.held
    return {"under": under, "after": job.train(1).held, "losses": job.losses}


def crashed() -> dict[str, Any]:
    job, plain = Job().train(1), Job().train(1)
    before, traces = job.held, job.traces
    try:
        with job.under():
            job.train(1)
            job.model(torch.arange(4))  # its weights are gathered when the error comes
            raise KeyError("the script's own")
    except KeyError:
        alike = job.held == before and job.traces == traces
    job.data.set_state(plain.data.get_state())
    job.schedule.load_state_dict(plain.schedule.state_dict())
    for ours, theirs in zip(job.optimizer.param_groups, plain.optimizer.param_groups):
        ours["lr"] = theirs["lr"]
    return {"alike": alike, "after": job.train(2).held, "plain": plain.train(2).held}


def left_clean() -> bool:
    job = Job().train(1)
    before, ids = job.traces, list(map(id, job.mine))
    for _ in range(2):
        with job.under():
            job.train(1)
    same = ids == [id(p) for g in job.optimizer.param_groups for p in g["params"]]
    return job.traces == before and type(job.mine[0]) is nn.Parameter and same


def refusals() -> dict[str, str]:
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    flat = nn.Sequential()
    flat.add_module("only", nn.Linear(4, 4))
    listed = nn.Sequential(nn.ModuleList([nn.Linear(4, 4)]))
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    hooked = nn.Sequential(nn.Linear(4, 4))
    hooked[0].weight.register_hook(lambda gradient: gradient)
    one = nn.Sequential(nn.Linear(4, 4))
    return {
        "one worker": refused(DistributedDataParallel(deepcopy(one), process_group=alone)),
        "no blocks": refused(DistributedDataParallel(flat)),
        "a list": refused(DistributedDataParallel(listed)),
        "shared": refused(DistributedDataParallel(tied)),
        "hooks": refused(DistributedDataParallel(hooked)),
        "unused": refused(DistributedDataParallel(deepcopy(one), find_unused_parameters=True)),
        "no DDP": refused(deepcopy(one)),
        "ZeRO": refused(
            DistributedDataParallel(deepcopy(one)),
            lambda p: ZeroRedundancyOptimizer(p, torch.optim.SGD, lr=0.1),
        ),
        "L-BFGS": refused(DistributedDataParallel(deepcopy(one)), torch.optim.LBFGS),
        "fused SGD": refused(
            DistributedDataParallel(deepcopy(one)),
            lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
        ),
        "join": joined(DistributedDataParallel(deepcopy(one))),
        "early": early(),
    }


def refused(model: Any, kind: Callable[..., Any] = torch.optim.SGD) -> str:
    optimizer, before = kind(model.parameters()), [p.tolist() for p in model.parameters()]
    try:
        with paceline.applied(["fully_sharded"], model, optimizer):
            return "was entered"
    except paceline.PacelineError as error:
        assert before == [p.tolist() for p in model.parameters()]
        return str(error)


def joined(model: Any) -> str:
    optimizer = torch.optim.SGD(model.parameters())
    with paceline.applied(["fully_sharded"], model, optimizer):
        try:
            with model.join():
                return "was entered"
        except paceline.PacelineError as error:
            return str(error)


def early() -> str:
    """A checkpoint that one rank takes before its step, when the others have made theirs."""
    job = Job()
    said = ""
    with job.under():
        job.train(1)
        job.passed(job.model)
        if dist.get_rank():
            job.optimizer.step()
        dist.barrier()
        if not dist.get_rank():
            try:
                job.model.state_dict()
            except paceline.PacelineError as error:
                said = str(error)
            job.optimizer.step()
    return said


def long_layer() -> list[list[float]]:
    """What one step adds to weights of 2.5 MB, whole and cut."""
    found = []
    for cut in (False, True):
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(nn.Sequential(nn.Linear(700, 900)))
        optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
        before = [p.detach().clone() for p in model.parameters()]
        under = paceline.applied(["fully_sharded"], model, optimizer) if cut else nullcontext()
        with under:
            model(torch.randn(5, 700)).square().mean().backward()
            optimizer.step()
        added = [(p - old).detach() for p, old in zip(model.parameters(), before)]
        found.append([x.item() for each in added for x in (each.square().sum(), each.sum())])
    return found


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told: dict[str, Any] = {"clean": left_clean()}
    gc.freeze()  # what is imported by now: every plan looks for the model among all other objects
    kinds = {
        "Adam": torch.optim.Adam,
        "fused Adam": lambda p, lr: torch.optim.Adam(p, lr=lr, fused=True),
        "SGD": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
    }
    told |= {
        name: [trained(kind, cut=cut) for cut in (False, True)] for name, kind in kinds.items()
    }
    told |= {"checkpoints": checkpoints(Job, Job.under, STEPS), "crashed": crashed()}
    told |= {"refused": refusals(), "long layer": long_layer()}
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
