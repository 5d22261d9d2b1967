"""Plans that change buckets alone: DDP's own exchange, counted once a step."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from lone_job import backward, job, sgd  # noqa: E402

import paceline  # noqa: E402

pytestmark = pytest.mark.usefixtures("group_of_one")
PLAN = ["buckets(size_bytes=1)"]


@pytest.mark.parametrize(("plan", "hooks"), [(PLAN, 0), ([*PLAN, "fp16"], 1)])
def test_a_hook_stands_between_ddp_and_its_buckets_where_they_are_coded(
    plan: list[str], hooks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    kept = torch.distributed._register_comm_hook
    monkeypatch.setattr(
        torch.distributed, "_register_comm_hook", lambda *told: (made.append(told), kept(*told))
    )
    model, optimizer = job(sgd)
    with paceline.applied(plan, model, optimizer):
        backward(model, 1)
    assert len(made) == hooks


def test_every_step_counts_its_buckets_and_bytes() -> None:
    model, optimizer = job(sgd)
    whole = sum(p.numel() * p.element_size() for p in model.parameters())
    with paceline.applied(PLAN, model, optimizer) as sent:
        for turn in range(1, 5):
            backward(model, turn)
            optimizer.step()
    assert (sent.steps, sent.payload_bytes) == (4, 4 * whole)
    assert sent.calls == 1 + 3 * len(list(model.parameters()))  # laid behind the first step


def test_a_backward_pass_that_shares_nothing_is_not_counted() -> None:
    model, optimizer = job(sgd)
    with paceline.applied(PLAN, model, optimizer) as sent:
        with model.no_sync():
            backward(model, 1)
        assert sent.steps == sent.calls == 0
        backward(model, 2)
    assert sent.steps == 1
