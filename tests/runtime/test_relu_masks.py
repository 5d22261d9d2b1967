"""ReLUs that keep a bit a value: the very same numbers, and fewer bytes."""

from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402

from paceline.runtime.stages.torch_live import LiveBytes  # noqa: E402
from paceline.runtime.torch_bits import packed, spread  # noqa: E402
from paceline.runtime.torch_relu_masks import relus_masked  # noqa: E402


def model(*, last: bool = False) -> nn.Module:
    torch.manual_seed(1)
    made = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 4, 3),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.LazyLinear(5),
    )
    made(torch.zeros(1, 3, 18, 18))
    return made.to(memory_format=torch.channels_last) if last else made


def trained(masked: bool, *, last: bool = False) -> list[Any]:
    made = model(last=last)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    torch.manual_seed(2)
    with relus_masked(made) if masked else nullcontext():
        for _ in range(6):
            optimizer.zero_grad()
            images = torch.randn(4, 3, 18, 18).round(decimals=1).requires_grad_()
            made(images).square().mean().backward()
            optimizer.step()
    return [images.grad, *made.state_dict().values()]


@pytest.mark.parametrize("last", [False, True])
def test_training_under_masks_is_bit_equal(last: bool) -> None:
    plain, ours = trained(False, last=last), trained(True, last=last)
    assert all(torch.equal(one, other) for one, other in zip(plain, ours))


def test_what_a_relu_and_a_pool_keep_shrinks_to_bits_and_short_places() -> None:
    def held(masked: bool) -> int:
        made = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        images = torch.randn(4, 3, 16, 16)
        with relus_masked(made) if masked else nullcontext():
            made(images)
            with LiveBytes() as live:
                loss = made(images).sum()
                found = live.bytes
            loss.backward()
        return found

    values = 4 * 8 * 16 * 16
    plain = 4 * values + 8 * values // 4
    assert held(False) - held(True) == plain - values // 8 - 2 * values // 4


def test_a_relu_that_a_convolution_reads_keeps_its_result() -> None:
    made = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1))
    with relus_masked(made):
        for _ in range(2):
            result = made(torch.randn(2, 3, 4, 4))
    assert "ReluBackward" in result.grad_fn.next_functions[0][0].name()


@settings(max_examples=30, deadline=None)
@given(bits=st.lists(st.booleans(), min_size=1, max_size=70))
def test_bits_are_spread_as_they_were_packed(bits: list[bool]) -> None:
    made = packed(torch.tensor(bits))
    assert made.numel() == -(-len(bits) // 8)
    assert spread(made, len(bits)).tolist() == bits


def test_values_that_are_no_numbers_pass_as_in_torch() -> None:
    values = torch.tensor([[-1.0, 0.0, float("nan"), 2.0, -0.0, float("inf")]])
    made, gradients = nn.Sequential(nn.ReLU(), nn.Dropout(0.0)), []
    for change in (nullcontext(), relus_masked(made)):
        with change:
            for _ in range(2):
                given_ = values.clone().requires_grad_()
                made(given_).backward(torch.full_like(values, 3.0))
            gradients.append(given_.grad)
    assert torch.equal(*gradients)
