"""The border between stages against plain arithmetic in one process."""

from dataclasses import fields

import pytest

torch = pytest.importorskip("torch")

from paceline.place.pipeline import Packing  # noqa: E402
from paceline.runtime.stages import PipelineError  # noqa: E402
from paceline.runtime.stages.torch_border import Before, Behind, Border  # noqa: E402
from paceline.runtime.stages.torch_profile import measure_border  # noqa: E402


def drawn(seed: int, *shape: int) -> "torch.Tensor":
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_largest_of_each_sample_pass_and_gradients_come_back_for_them_alone() -> None:
    made = torch.tensor([[5.0, 0.1, -4.0, 0.2], [0.3, 6.0, 0.1, -4.0]])
    before, behind = Before(Border(0.5)), Behind()
    seen = behind.open(before.close(made, 0), 0)
    assert torch.equal(seen, torch.tensor([[5.0, 0, -4.0, 0], [0, 6.0, 0, -4.0]]))
    gradient = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    back = before.gradient(behind.masked(gradient, 0), 0)
    assert torch.equal(back, torch.tensor([[1.0, 0, 3.0, 0], [0, 6.0, 0, 8.0]]))


def test_a_sample_with_fewer_above_the_threshold_sends_fewer_and_one_with_more_no_more() -> None:
    before, behind = Before(Border(0.5)), Behind()
    before.close(torch.tensor([[2.0, 2.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0]]), 0)
    made = torch.tensor([[9.0, 1.0, 1.0, 1.0], [3.0, 4.0, 5.0, 6.0]])
    seen = behind.open(before.close(made, 1), 1)
    assert torch.equal(seen, torch.tensor([[9.0, 0, 0, 0], [3.0, 4.0, 0, 0]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_messages_keep_shape_and_dtype_and_their_bytes_are_counted(dtype: "torch.dtype") -> None:
    before, behind, made = Before(Border(0.25)), Behind(), drawn(1, 3, 4, 5).to(dtype)
    message = before.close(made, 0)
    seen = behind.open(message, 0)
    assert (seen.shape, seen.dtype) == (made.shape, made.dtype)
    assert before.sent_bytes == message.numel() == 64 + 3 * 5 * (4 + made.itemsize)
    behind.masked(drawn(2, 3, 4, 5).to(dtype), 0)
    assert behind.sent_bytes == 3 * 5 * made.itemsize


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_messages_say_by_a_bit_what_passed_and_values_in_two_bytes(
    dtype: "torch.dtype",
) -> None:
    border, made = Border(0.45, packed=True), drawn(5, 3, 4, 5).to(dtype)
    before, behind, plain = Before(border), Behind(border), Before(Border(0.45))
    message = before.close(made, 0)
    seen = behind.open(message, 0)
    whole = Behind().open(plain.close(made, 0), 0)
    assert (seen.shape, seen.dtype) == (made.shape, made.dtype)
    assert torch.equal(seen != 0, whole != 0)
    assert torch.equal(seen, whole.to(torch.bfloat16).to(dtype))
    assert message.numel() == 64 + 8 + 2 * 3 * 9  # 60 bits in 8 bytes
    back = before.gradient(behind.masked(drawn(6, 3, 4, 5).to(dtype), 0), 0)
    assert back.dtype == dtype
    assert torch.equal(back != 0, seen != 0)
    assert behind.sent_bytes == 2 * 3 * 9


def test_both_halves_are_what_autograd_makes_of_a_masked_activation() -> None:
    first, second = torch.nn.Linear(8, 12), torch.nn.Linear(12, 3)
    inputs, before, behind = drawn(3, 5, 8), Before(Border(0.5)), Behind()
    made = first(inputs)
    given = behind.open(before.close(made.detach(), 0), 0).requires_grad_()
    second(given).square().sum().backward()
    assert given.grad is not None
    made.backward(before.gradient(behind.masked(given.grad, 0), 0))
    ours = [p.grad.clone() for p in (*first.parameters(), *second.parameters())]
    first.zero_grad()
    second.zero_grad()
    whole = first(inputs)
    second(whole * (given.detach() != 0)).square().sum().backward()
    theirs = [p.grad for p in (*first.parameters(), *second.parameters())]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(ours, theirs))


def test_a_border_that_lets_nothing_pass_is_refused() -> None:
    with pytest.raises(PipelineError, match="give a ratio above 0"):
        Border(0.0)


def test_the_four_halves_of_a_border_are_timed() -> None:
    took = measure_border(torch.randn(4, 32).relu(), Border(0.25, packed=True), repeats=3)
    assert set(took) == {field.name for field in fields(Packing)}
    assert all(ns > 0 for ns in took.values())
