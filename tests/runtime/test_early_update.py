"""Updates while gradients arrive: the same weights, and what would come between is refused."""

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

PLAN = ["buckets(size_bytes=1)", "early_update"]

pytestmark = pytest.mark.usefixtures("group_of_one")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("views", [False, True])
def test_an_early_update_takes_the_settings_of_its_own_step(
    optimizer: Optimizer, views: bool
) -> None:
    settings = {"gradient_as_bucket_view": views}
    assert scheduled(PLAN, optimizer, **settings) == scheduled([], optimizer, **settings)


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


def test_parameters_whose_channels_lie_last_take_their_own_gradients() -> None:
    assert of_images(PLAN) == of_images([])


def test_a_closure_runs_before_the_step_that_it_is_given_to() -> None:
    assert closed(PLAN) == closed([])


def clipped(model: Any, trained: Any) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    trained.step()


def warmed(_: Any, trained: Any) -> None:
    trained.param_groups[0]["lr"] = 0.3
    trained.step()


def added_up(model: Any, _: Any) -> None:
    backward(model, 2)


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (clipped, "was changed between backward and"),
        (warmed, "the optimizer's lr was changed between backward and its step"),
        (added_up, "two backward passes before"),
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


def test_a_parameter_that_no_pass_uses_is_found_before_any_weight_differs() -> None:
    model, trained = branching(static_graph=True)
    model.module.whole = False
    before = weights(model)
    with paceline.applied(PLAN, model, trained):
        backward(model, 1)
        with pytest.raises(ExchangeError, match=r"middle\.\w+ may have no gradient"):
            trained.step()
    assert weights(model) == before


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
