"""A worker whose script trains under tensor_parallel, in all the ways scripts have.

torchrun --nproc-per-node 2 pairs_worker.py OUT (or 4: two groups of two)
"""

import gc
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from saved_alone import checkpoints
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import paceline

WIDTH, INNER, ROWS, STEPS = 6, 10, 8, 3
PLAN = "tensor_parallel(degree=2)"


class Block(nn.Module):
    """A pair in the middle of a model, by its own forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, INNER)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def perceptron() -> nn.Module:
    """Two pairs, with a batch norm between them, and a layer that is in none."""
    return nn.Sequential(
        nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, 8, bias=False),
        nn.BatchNorm1d(8), Squeezed(),
        nn.Linear(8, INNER, bias=False), nn.Tanh(), nn.Dropout(0.0), nn.Linear(INNER, WIDTH),
        Block(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1),
    )  # fmt: skip


class Squeezed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(-2, 2)


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, INNER, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Unflatten(1, (1, WIDTH)), nn.TransformerEncoder(layer, 2), nn.Flatten())


def bare() -> nn.Module:
    """A pair whose parts are all that there is."""
    layers = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)
    return nn.Sequential(layers[0], nn.SiLU(), layers[1])


Optimizer = Callable[..., Any]


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


class Job:
    """A script: it keeps its parameters in a list, clips them, and has a schedule."""

    def __init__(self, kind: Optimizer = sgd, make: Callable[[], nn.Module] = perceptron) -> None:
        torch.manual_seed(1)
        self.model = DistributedDataParallel(make())
        self.mine = list(self.model.parameters())
        self.optimizer = kind(self.mine)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.data = torch.Generator().manual_seed(dist.get_rank())
        self.seen: list[float] = []

    def train(self, steps: int = STEPS, passes: int = 1, *, each: bool = False) -> "Job":
        """`each`: gradients are reduced behind each pass, not behind the last alone."""
        for _ in range(steps):
            self.optimizer.zero_grad()
            for at in range(passes):
                with nullcontext() if each or at == passes - 1 else self.model.no_sync():
                    self.passed()
            self.seen.append(float(nn.utils.clip_grad_norm_(self.mine, 0.5)))
            self.optimizer.step()
            self.schedule.step()
        return self

    def passed(self, rows: int = ROWS) -> None:
        inputs = torch.randn(rows, WIDTH, generator=self.data)
        loss = (self.model(inputs).sum(-1) - inputs.prod(-1)).square().mean()
        loss.backward()
        self.seen.append(loss.item())

    def under(self, plan: str = PLAN) -> Any:
        return paceline.applied(plan.split(" + "), self.model, self.optimizer)

    def evaluated(self) -> list[float]:
        """As one rank alone may, by the inner model."""
        inputs = torch.arange(2.0 * WIDTH).view(2, WIDTH) / 9
        self.model.eval()
        found: list[float] = self.model.module(inputs).flatten().tolist()
        with torch.no_grad():
            found += self.model.module(inputs).flatten().tolist()
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
    def gradients(self) -> list[float]:
        return torch.cat([p.grad.flatten() for p in self.mine]).tolist()

    @property
    def traces(self) -> list[Any]:
        return [
            (type(m).__name__, sorted(vars(m)), [len(vars(m)[n]) for n in vars(m) if "hooks" in n])
            for m in self.model.modules()
        ]


KINDS: dict[str, tuple[Optimizer, Callable[[], nn.Module], int]] = {
    "SGD": (sgd, perceptron, 1),
    "Adam": (lambda p: torch.optim.Adam(p, lr=0.01), perceptron, 1),
    "fused Adam": (lambda p: torch.optim.Adam(p, lr=0.01, fused=True), perceptron, 1),
    "foreach": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True), perceptron, 1),
    "passes": (sgd, perceptron, 3),
    "each pass": (sgd, perceptron, 3),
    "transformer": (sgd, transformer, 1),
    "buckets": (sgd, perceptron, 1),
    "nothing else": (sgd, bare, 1),
}
PLANS = {"buckets": f"buckets(size_bytes=64) + {PLAN}"}


TWO_GROUPS = ("SGD", "passes", "each pass", "nothing else")
"""What two groups train, too."""


def trained(name: str, *, cut: bool) -> dict[str, Any]:
    kind, make, passes = KINDS[name]
    job = Job(kind, make).train(1)
    with job.under(PLANS.get(name, PLAN)) if cut else nullcontext() as sent:
        job.train(passes=passes, each=name == "each pass")
        under, looks = job.held, job.evaluated()
        own = sum(p.to_local().numel() if hasattr(p, "to_local") else p.numel()
                  for p in job.model.parameters())  # fmt: skip
    found = {"under": under, "looks": looks, "given back": job.gradients}
    counted = sent.a_step() if cut else {}
    return {**found, "after": job.train(1).held, "seen": job.seen, "sent": counted, "own": own}


def crashed() -> dict[str, Any]:
    job, plain = Job().train(1), Job().train(1)
    before, traces = job.held, job.traces
    try:
        with job.under():
            job.train(1)
            raise KeyError("the script's own")
    except KeyError:
        alike = job.held == before and job.traces == traces
    job.data.set_state(plain.data.get_state())
    job.schedule.load_state_dict(plain.schedule.state_dict())
    for ours, theirs in zip(job.optimizer.param_groups, plain.optimizer.param_groups):
        ours["lr"] = theirs["lr"]
    return {"alike": alike, "after": job.train(2).held, "plain": plain.train(2).held}


def left_clean() -> bool:
    job = Job(make=transformer).train(1)
    before, ids = job.traces, list(map(id, job.mine))
    for _ in range(2):
        with job.under():
            job.train(1)
    same = ids == [id(p) for g in job.optimizer.param_groups for p in g["params"]]
    return job.traces == before and type(job.mine[0]) is nn.Parameter and same


def batches() -> dict[str, Any]:
    """Batches that change alike for all; then one of a group that is larger than the other's."""
    job, plain = Job().train(1), Job().train(1)
    said = ""
    try:
        with job.under():
            for rows in (2, 5, 5, 2):
                job.passed(rows)
                plain.passed(rows)
            alike = job.seen, plain.seen
            job.passed(4 + dist.get_rank())
    except paceline.PacelineError as error:
        said = str(error)
    return {"alike": alike, "said": said}


def tried(make: Callable[[], nn.Module] = perceptron, kind: Optimizer = sgd,
          plan: str = PLAN, **ddp: Any) -> str:  # fmt: skip
    model = DistributedDataParallel(make(), **ddp)
    optimizer, before = kind(model.parameters()), [p.tolist() for p in model.parameters()]
    try:
        with paceline.applied(plan.split(" + "), model, optimizer):
            return "was entered"
    except paceline.PacelineError as error:
        assert before == [p.tolist() for p in model.parameters()]
        return str(error)


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[0].weight.register_hook(lambda gradient: gradient)
    return model


def refusals() -> Iterator[tuple[str, str]]:
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    yield "one worker", tried(process_group=alone)
    yield "no pairs", tried(lambda: nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 4)))
    yield "odd", tried(lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4)))
    yield "degree", tried(plan="tensor_parallel(degree=3)")
    yield "hooks", tried(hooked)
    yield "unused", tried(find_unused_parameters=True)
    yield "L-BFGS", tried(kind=torch.optim.LBFGS)
    yield "fused SGD", tried(kind=lambda p: torch.optim.SGD(p, lr=0.1, fused=True))
    yield "compiled", tried(compiled)
    yield "eval", trained_in_eval()
    yield "join", joined()


def compiled() -> nn.Module:
    model = perceptron()
    model[0].compile(backend="eager")
    return model


def trained_in_eval() -> str:
    job = Job().train(1)
    with job.under():
        job.model.eval()
        try:
            job.passed()
        except paceline.PacelineError as error:
            return str(error)
    return "was trained"


def joined() -> str:
    job = Job()
    with job.under():
        try:
            with job.model.join():
                return "was entered"
        except paceline.PacelineError as error:
            return str(error)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told: dict[str, Any] = {"clean": left_clean()}
    gc.freeze()  # what is imported by now: every plan looks for the model among all other objects
    two = dist.get_world_size() == 2
    told |= {name: [trained(name, cut=cut) for cut in (False, True)]
             for name in KINDS if two or name in TWO_GROUPS}  # fmt: skip
    told["checkpoints"] = checkpoints(Job, Job.under, STEPS)
    if two:
        told |= {"crashed": crashed(), "refused": dict(refusals())}
    told["batches"] = batches()
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
