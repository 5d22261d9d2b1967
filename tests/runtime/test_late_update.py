"""Updates as late as the next use: the same weights, and what would read gradients is refused."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from lone_job import (  # noqa: E402
    OPTIMIZERS,
    Optimizer,
    backward,
    branching,
    closed,
    job,
    of_images,
    scheduled,
    sgd,
    weights,
)

import paceline  # noqa: E402
from paceline.runtime.exchange import ExchangeError  # noqa: E402

PLAN = ["buckets(size_bytes=1)", "overlap_update"]

pytestmark = pytest.mark.usefixtures("group_of_one")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_late_update_takes_the_settings_of_its_own_step(optimizer: Optimizer) -> None:
    assert scheduled(PLAN, optimizer) == scheduled([], optimizer)


def test_a_module_that_runs_waits_for_its_own_weights_alone() -> None:
    model, trained = job(sgd)
    with paceline.applied(PLAN, model, trained):
        backward(model, 1)  # in one bucket, after which DDP makes those asked for
        trained.step()
        backward(model, 2)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        trained.step()
        model.module[0](torch.ones(1, 6))
        same = [torch.equal(old, new) for old, new in zip(before, model.parameters())]
    assert same == [False, False, True, True, True, True]


def test_parameters_whose_channels_lie_last_take_their_own_gradients() -> None:
    assert of_images(PLAN) == of_images([])


def test_a_closure_runs_before_the_step_that_it_is_given_to() -> None:
    assert closed(PLAN) == closed([])


@pytest.mark.parametrize("setting", ["find_unused_parameters", "static_graph"])
def test_parameters_that_no_rank_uses_are_left_alone(setting: str) -> None:
    learnt = []
    for plan in (PLAN, []):
        model, trained = branching(**{setting: True})
        for turn, whole in enumerate((setting != "static_graph", False, False), 1):
            model.module.whole = whole
            with paceline.applied(plan, model, trained):
                backward(model, turn)
                trained.step()
        learnt.append(weights(model))
    assert learnt[0] == learnt[1]


def clipped(model: Any, trained: Any) -> None:
    backward(model, 1)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    trained.step()


def added_up(model: Any, _: Any) -> None:
    backward(model, 1)
    backward(model, 2)


@pytest.mark.parametrize(
    ("train", "said"),
    [(clipped, "was changed between backward and"), (added_up, "two backward passes before")],
)
def test_what_needs_all_gradients_at_once_is_refused(
    train: Callable[[Any, Any], None], said: str
) -> None:
    model, trained = job(sgd)
    with paceline.applied(PLAN, model, trained), pytest.raises(ExchangeError, match=said):
        train(model, trained)


def test_an_optimizer_that_reads_all_gradients_at_once_is_refused() -> None:
    model, trained = job(torch.optim.LBFGS)
    with (
        pytest.raises(ExchangeError, match="LBFGS may read all gradients at once"),
        paceline.applied(PLAN, model, trained),
    ):
        pass


def test_leaving_makes_the_last_update_and_gives_the_optimizer_back() -> None:
    model, trained = job(sgd)
    step = trained.step.__func__
    with paceline.applied(PLAN, model, trained):
        backward(model, 1)
        before = weights(model)
        trained.step()
    assert [p for parameter in model.parameters() for p in parameter.flatten().tolist()] != before
    assert trained.step.__func__ is step
    assert len(trained.param_groups[0]["params"]) == 6
    assert not any(module._forward_pre_hooks for module in model.modules())
