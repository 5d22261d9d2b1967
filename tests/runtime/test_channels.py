"""Channels put last and back: on whatever device the weights lie."""

import pytest

torch = pytest.importorskip("torch")

from paceline.runtime.run import Run  # noqa: E402
from paceline.runtime.torch_channels import channels_innermost  # noqa: E402


def test_weights_come_back_as_they_lay_on_their_own_device() -> None:
    model = torch.nn.Conv2d(3, 4, 2, device="meta")
    before = model.weight.stride()
    with channels_innermost(Run(model, torch.optim.SGD(model.parameters(), 0.1))):
        assert model.weight.is_contiguous(memory_format=torch.channels_last)
    assert model.weight.device.type == "meta"
    assert model.weight.stride() == before
