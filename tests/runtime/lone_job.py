"""A small DDP job of one worker, for tests of updates apart from the optimizer's step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import paceline

Optimizer = Callable[[Any], Any]
OPTIMIZERS: tuple[Optimizer, ...] = (
    lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    lambda parameters: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1),
    lambda parameters: torch.optim.Adam(
        [{"params": [each], "lr": 0.01 * (1 + at)} for at, each in enumerate(parameters)]
    ),
)
"""Those whose update of a parameter depends on nothing but its own gradient and state."""


_ended: list[Any] = []
"""The last group: a thread of gloo's that still ends a call must not be the last to hold it, for it
would wait for itself, and abort the process."""


@contextmanager
def alone() -> Iterator[None]:
    """The process group of the job's only worker."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    _ended[:] = [dist.distributed_c10d._get_default_group()]
    try:
        yield
    finally:
        dist.destroy_process_group()


def job(optimizer: Optimizer, **settings: Any) -> tuple[Any, Any]:
    """The replica, with these settings of DDP, and its optimizer."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    replica = nn.parallel.DistributedDataParallel(model, **settings)
    return replica, optimizer(replica.parameters())


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def backward(model: Any, turn: int) -> None:
    model.zero_grad()
    model(torch.full((4, 6), turn / 10)).square().sum().backward()


def closing(model: Any, trained: Any, turn: int) -> None:
    """A step that is given a closure."""

    def passed() -> Any:
        trained.zero_grad()
        loss = model(torch.full((4, 6), turn / 10)).square().sum()
        loss.backward()
        return loss

    assert trained.step(passed).detach() > 0


def closed(plan: list[str]) -> list[float]:
    """Weights behind steps that are given closures."""
    model, trained = job(sgd)
    with paceline.applied(plan, model, trained):
        for turn in range(1, 5):
            closing(model, trained, turn)
    return weights(model)


class Branches(nn.Module):
    """A middle layer that not every pass uses."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.whole = True

    def forward(self, inputs: Any) -> Any:
        made = self.first(inputs).tanh()
        return self.last(self.middle(made).tanh() if self.whole else made)


def branching(**settings: Any) -> tuple[Any, Any]:
    """A replica of such a model, with these settings of DDP, and its optimizer."""
    torch.manual_seed(3)
    replica = nn.parallel.DistributedDataParallel(Branches(), **settings)
    return replica, sgd(replica.parameters())


def of_images(plan: list[str]) -> list[float]:
    """Weights behind steps of a model whose channels lie last."""
    torch.manual_seed(3)
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 2), nn.Flatten(), nn.Linear(20, 2)]
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    replica = nn.parallel.DistributedDataParallel(model)
    trained = sgd(replica.parameters())
    with paceline.applied(plan, replica, trained):
        for images in torch.randn(4, 2, 3, 5, 5, generator=torch.Generator().manual_seed(1)):
            trained.zero_grad()
            replica(images).square().mean().backward()
            trained.step()
    return weights(replica)


def weights(model: Any) -> list[float]:
    """As `state_dict` gives them, which waits for updates that are under way."""
    return torch.cat([tensor.flatten() for tensor in model.state_dict().values()]).tolist()


def scheduled(plan: list[str], optimizer: Optimizer, **settings: Any) -> list[list[float]]:
    """Weights behind each step, with a learning rate that halves in every step."""
    model, trained = job(optimizer, **settings)
    halved = torch.optim.lr_scheduler.ExponentialLR(trained, 0.5)
    seen = []
    with paceline.applied(plan, model, trained):
        for turn in range(5):
            backward(model, turn)
            trained.step()
            halved.step()
            seen.append(weights(model))
    return seen
