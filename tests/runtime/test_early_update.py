"""Updates while gradients arrive: the same weights, and what would come between is refused."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import paceline  # noqa: E402
from paceline.runtime.exchange import ExchangeError  # noqa: E402

PLAN = ["buckets(size_bytes=1)", "early_update"]
Optimizer = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """A job of one worker."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def job(optimizer: Optimizer, **settings: Any) -> tuple[Any, Any]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    replica = nn.parallel.DistributedDataParallel(model, **settings)
    return replica, optimizer(replica.parameters())


def backward(model: Any, turn: int) -> None:
    model.zero_grad()
    model(torch.full((4, 6), turn / 10)).square().sum().backward()


def weights(model: Any) -> list[float]:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


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


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1),
        lambda parameters: torch.optim.Adam(
            [{"params": [each], "lr": 0.01 * (1 + at)} for at, each in enumerate(parameters)]
        ),
    ],
)
@pytest.mark.parametrize("views", [False, True])
def test_an_early_update_takes_the_settings_of_its_own_step(
    optimizer: Optimizer, views: bool
) -> None:
    settings = {"gradient_as_bucket_view": views}
    assert scheduled(PLAN, optimizer, **settings) == scheduled([], optimizer, **settings)


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def test_weights_are_new_once_backward_has_ended_and_step_leaves_them() -> None:
    model, trained = job(sgd)
    with paceline.applied(PLAN, model, trained):
        backward(model, 1)  # made as ever
        trained.step()
        before = weights(model)
        backward(model, 2)
        behind = weights(model)
        told = []
        handle = trained.register_step_post_hook(lambda *_: told.append(weights(model)))
        trained.step()
        handle.remove()
    assert behind != before
    assert told == [behind]
    assert weights(model) == behind


def clipped(model: Any, trained: Any) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    trained.step()


def warmed(_: Any, trained: Any) -> None:
    trained.param_groups[0]["lr"] = 0.3
    trained.step()


def added_up(model: Any, _: Any) -> None:
    backward(model, 2)


def closed(_: Any, trained: Any) -> None:
    trained.step(lambda: 0.0)


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (clipped, "was changed between backward and"),
        (warmed, "the optimizer's lr was changed between backward and its step"),
        (added_up, "two backward passes before"),
        (closed, "is given a closure"),
    ],
)
def test_what_comes_between_is_refused_before_any_weight_differs(
    train: Callable[[Any, Any], None], said: str
) -> None:
    model, trained = job(sgd)
    before = weights(model)
    with paceline.applied(PLAN, model, trained):
        backward(model, 1)
        with pytest.raises(ExchangeError, match=said):
            train(model, trained)
    assert weights(model) == before


def test_parameters_that_may_have_no_gradient_are_refused() -> None:
    model, trained = job(sgd, find_unused_parameters=True)
    with (
        pytest.raises(ExchangeError, match="find_unused_parameters"),
        paceline.applied(PLAN, model, trained),
    ):
        pass


def test_a_job_that_is_left_before_its_step_does_not_update_twice() -> None:
    model, trained = job(sgd)
    step = trained.step.__func__
    with paceline.applied(PLAN, model, trained):
        backward(model, 1)
        trained.step()
        backward(model, 2)
    behind = weights(model)
    trained.step()
    assert weights(model) == behind
    assert trained.step.__func__ is step
