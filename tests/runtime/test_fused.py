"""The fused optimizer, begun in the middle of a training."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import paceline  # noqa: E402
from paceline.runtime.torch_fused import FusedError  # noqa: E402


def learnt(plan: list[str], dampening: float = 0.0) -> list[float]:
    """The second layer trains only from the second step on, and has no velocity before."""
    torch.manual_seed(3)
    model, given = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), torch.ones(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, dampening=dampening)
    model[0](given).square().sum().backward()
    optimizer.step()
    with paceline.applied(plan, model, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            model(given).square().sum().backward()
            optimizer.step()
    return [value for p in model.parameters() for value in p.flatten().tolist()]


def test_a_parameter_without_a_velocity_begins_with_its_gradient() -> None:
    assert learnt(["fused_optimizer"]) == pytest.approx(learnt([]), rel=1e-5)


def test_where_dampening_would_take_a_part_of_it_the_fused_one_is_refused() -> None:
    with pytest.raises(FusedError, match="without dampening for all or none"):
        learnt(["fused_optimizer"], dampening=0.1)


def test_sparse_gradients_are_refused() -> None:
    words = nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SGD(words.parameters(), 0.1)
    words(torch.tensor([1])).sum().backward()
    with (
        pytest.raises(FusedError, match="takes no sparse gradients"),
        paceline.applied(["fused_optimizer"], words, optimizer),
    ):
        pass
