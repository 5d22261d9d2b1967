"""Which module a plan changes, where the script hands none over."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from paceline.strategies import StrategyError  # noqa: E402
from paceline.strategies.torch_applied import outermost  # noqa: E402


def test_it_is_the_one_that_holds_all_that_is_trained(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert outermost(torch.optim.SGD(model.parameters(), 0.1)) is model
    assert not caplog.text


def test_of_several_it_is_the_largest_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    small, large = nn.Linear(2, 2), nn.Linear(8, 8)
    optimizer = torch.optim.SGD([*small.parameters(), *large.parameters()], 0.1)
    assert outermost(optimizer) is large
    assert "trains 2 modules that no other holds together" in caplog.text


def test_tensors_of_no_module_are_refused() -> None:
    with pytest.raises(StrategyError, match="tensors of no module"):
        outermost(torch.optim.SGD([torch.zeros(2, requires_grad=True)], 0.1))
