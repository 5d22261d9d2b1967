"""An embedding with sparse gradients: what leaves them as they travel trains as ever."""

from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from lone_job import weights  # noqa: E402
from torch import nn  # noqa: E402

import paceline  # noqa: E402
from paceline.runtime.exchange import ExchangeError  # noqa: E402

pytestmark = pytest.mark.usefixtures("group_of_one")


def job() -> tuple[Any, Any]:
    torch.manual_seed(3)
    layers = [nn.Embedding(20, 8, sparse=True), nn.Flatten(), nn.Linear(24, 2)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def learnt(plan: list[str] | None) -> list[float]:
    model, optimizer = job()
    with nullcontext() if plan is None else paceline.applied(plan, model, optimizer):
        for batch in torch.arange(60).reshape(5, 4, 3) % 20:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    return weights(model)


@pytest.mark.parametrize("text", ["", "zero1", "priority", "early_update", "overlap_update"])
def test_plans_that_leave_them_as_they_are_train_the_same(text: str) -> None:
    assert learnt([text] if text else []) == learnt(None)


@pytest.mark.parametrize("text", ["bf16", "topk(ratio=0.5)", "partition(parts=2)"])
def test_plans_that_pack_or_cut_them_are_refused(text: str) -> None:
    with pytest.raises(ExchangeError, match="an embedding with sparse=True"):
        learnt([text])
