"""A model that two optimizers train: what changes when one of them updates is refused."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from lone_job import backward, job, sgd, weights  # noqa: E402

import paceline  # noqa: E402
from paceline.runtime.exchange import ExchangeError  # noqa: E402

pytestmark = pytest.mark.usefixtures("group_of_one")


def halves() -> tuple[Any, Any, Any]:
    """A model, and an optimizer for either half of it."""
    model, _ = job(sgd)
    front, back = list(model.parameters())[:4], list(model.parameters())[4:]
    return model, sgd(front), sgd(back)


@pytest.mark.parametrize(
    "plan", ["accumulate(steps=2)", "overlap_update", "topk(ratio=0.5, momentum='before')"]
)
def test_the_step_of_the_other_optimizer_is_refused_before_it_is_made(plan: str) -> None:
    model, first, second = halves()
    before = [parameter.clone() for parameter in second.param_groups[0]["params"]]
    with paceline.applied([plan], model, first):
        backward(model, 1)
        with pytest.raises(ExchangeError, match="two optimizers train this model"):
            second.step()
    after = second.param_groups[0]["params"]
    assert all(torch.equal(one, other) for one, other in zip(before, after))
    second.step()


@pytest.mark.parametrize("plan", ["early_update", "zero1", "partition(parts=2)"])
def test_what_leaves_the_others_gradients_as_they_are_is_not(plan: str) -> None:
    learnt = []
    for each in ([plan], []):
        model, first, second = halves()
        with paceline.applied(each, model, first):
            for turn in range(1, 4):
                backward(model, turn)
                first.step()
                second.step()
        learnt.append(weights(model))
    assert learnt[0] == learnt[1]


def test_another_models_optimizer_steps_as_ever() -> None:
    model, first, _ = halves()
    other = torch.nn.Linear(2, 2)
    beside = sgd(other.parameters())
    with paceline.applied(["accumulate(steps=2)"], model, first):
        other(torch.ones(1, 2)).sum().backward()
        beside.step()


def test_parameters_that_the_optimizer_does_not_train_take_an_order_of_buckets() -> None:
    model, first, _ = halves()
    with paceline.applied(["buckets(size_bytes=1, order='last use')"], model, first) as sent:
        backward(model, 1)
    assert sent.calls == len(list(model.parameters()))
