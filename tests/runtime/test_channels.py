"""Channels last: a model that was left has the strides that it had."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import paceline  # noqa: E402


@pytest.mark.parametrize("steps_before", [0, 1])
def test_weights_and_states_have_their_strides_again_those_of_one_place_too(
    steps_before: int,
) -> None:
    """Both orders of a weight of one place are contiguous; kernels are chosen by its strides."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 4, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    images = torch.randn(2, 3, 8, 8)

    def step() -> tuple[int, ...]:
        optimizer.zero_grad()
        made = model(images)
        made.square().mean().backward()
        optimizer.step()
        return made.stride()

    plain = [tuple(weight.stride()) for weight in model.parameters()]
    for _ in range(steps_before):
        step()
    with paceline.applied(["channels_last"], model, optimizer):
        assert step()[1] == 1, "channels are innermost"
    assert [tuple(weight.stride()) for weight in model.parameters()] == plain
    states = [optimizer.state[weight]["exp_avg"] for weight in model.parameters()]
    assert [tuple(state.stride()) for state in states] == plain
    assert step()[-1] == 1, "and are not afterwards"
