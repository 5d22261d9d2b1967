"""Gradients that add up over steps of the script: one larger batch, exchanged and learnt once."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import paceline  # noqa: E402
from paceline.runtime.exchange import ExchangeError  # noqa: E402

pytestmark = pytest.mark.usefixtures("group_of_one")


def job() -> tuple[Any, Any]:
    torch.manual_seed(3)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2)))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def train(model: Any, optimizer: Any, batches: list[Any]) -> None:
    for batch in batches:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def weights(model: Any) -> list[float]:
    return [x for parameter in model.parameters() for x in parameter.flatten().tolist()]


@pytest.mark.parametrize(("power", "rate"), [(0.0, 0.1), (0.5, 0.1 * 2**0.5), (1.0, 0.2)])
def test_two_steps_together_learn_what_one_of_both_batches_learns(
    power: float, rate: float
) -> None:
    batches = list(torch.randn(6, 4, 6))
    model, optimizer = job()
    with paceline.applied([f"accumulate(steps=2, rate_power={power})"], model, optimizer) as sent:
        train(model, optimizer, batches)
    assert optimizer.param_groups[0]["lr"] == 0.1
    larger, other = job()
    other.param_groups[0]["lr"] = rate
    train(larger, other, [torch.cat(pair) for pair in zip(batches[::2], batches[1::2])])
    assert weights(model) == pytest.approx(weights(larger), rel=1e-5, abs=1e-7)
    assert sent.steps == 3


def test_leaving_gives_back_the_script_its_own_steps() -> None:
    model, optimizer = job()
    step = optimizer.step.__func__
    with paceline.applied(["accumulate(steps=4)"], model, optimizer):
        train(model, optimizer, list(torch.randn(5, 4, 6)))
        before = weights(model)
    assert model.require_backward_grad_sync
    assert optimizer.step.__func__ is step
    assert "zero_grad" not in {**vars(model), **vars(optimizer)}
    train(model, optimizer, [torch.ones(4, 6)])
    assert weights(model) != before


def closed(model: Any, optimizer: Any, batches: list[Any]) -> None:
    def passed(batch: Any) -> Any:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        return loss

    for batch in batches:
        assert optimizer.step(lambda batch=batch: passed(batch)).detach() > 0


def test_a_closure_is_a_pass_of_the_step_that_it_is_given_to() -> None:
    batches, learnt = list(torch.randn(6, 4, 6)), []
    for each in (train, closed):
        model, optimizer = job()
        with paceline.applied(["accumulate(steps=2)"], model, optimizer):
            each(model, optimizer, batches)
        learnt.append(weights(model))
    assert learnt[0] == learnt[1]


def test_an_optimizer_that_takes_several_gradients_in_a_step_is_refused() -> None:
    model, _ = job()
    with (
        pytest.raises(ExchangeError, match="LBFGS takes new gradients several times"),
        paceline.applied(["accumulate(steps=2)"], model, torch.optim.LBFGS(model.parameters())),
    ):
        pass


def test_a_schedule_may_be_made_while_steps_are_put_together() -> None:
    model, optimizer = job()
    step = optimizer.step.__func__
    with paceline.applied(["accumulate(steps=2)"], model, optimizer):
        halved = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for batch in torch.randn(2, 4, 6):
            train(model, optimizer, [batch])
            halved.step()
    assert optimizer.param_groups[0]["lr"] == 0.025
    assert optimizer.step.__func__ is step
