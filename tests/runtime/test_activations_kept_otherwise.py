"""Activations run again or kept in fewer bits, in a live model of one process."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from paceline.runtime.segments import SegmentError, segments_of
from paceline.runtime.torch_compressed import FORMS, Byte, Half
from paceline.runtime.torch_recompute import recomputing
from paceline.runtime.torch_stash import stashing

Change = Callable[[Any], AbstractContextManager[None]]
KINDS = {"": "Net", "stem": "Linear", "blocks.0": "Block", "blocks.0.a": "Linear",
         "blocks.1": "Block", "blocks.1.a": "Linear", "head": "Sequential",
         "head.0": "Linear", "head.1": "ReLU", "head.2": "Linear"}  # fmt: skip


class Block(nn.Module):
    """A residual block with statistics and random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(32, 32), nn.BatchNorm1d(32)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Any) -> Any:
        return x + self.dropout(torch.relu(self.norm(self.linear(x))))


def model() -> nn.Module:
    torch.manual_seed(1)
    blocks = [Block() for _ in range(4)]
    return nn.Sequential(nn.Linear(16, 32), *blocks, nn.Linear(32, 4))


def trained(change: Change | None, steps: int = 50) -> tuple[list[Any], list[float]]:
    """All parameters and buffers after some steps under a change, and the losses."""
    torch.set_num_threads(1)
    made = model()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(2)
    losses = []
    with change(made) if change else nullcontext():
        for _ in range(steps):
            inputs = torch.randn(64, 16)
            loss = (made(inputs) - inputs[:, :4]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return [value.clone() for value in made.state_dict().values()], losses


@pytest.mark.parametrize(("layers", "every"), [("", 1), ("1|3", 1), ("*", 2), ("*", 6)])
def test_fifty_steps_run_again_are_bit_equal_with_dropout_and_batch_norm(
    layers: str, every: int
) -> None:
    plain, losses = trained(None)
    again, same = trained(lambda made: recomputing(made, layers, every))
    assert same == losses
    assert all(torch.equal(one, other) for one, other in zip(plain, again))


def test_a_layer_run_again_keeps_its_input_alone() -> None:
    def saved(change: Change) -> int:
        made, found = model(), set[int]()
        with (
            change(made),
            torch.autograd.graph.saved_tensors_hooks(
                lambda t: found.add(t.untyped_storage().data_ptr()) or t, lambda t: t
            ),
        ):
            made(torch.randn(64, 16)).sum()
        return len(found)

    assert saved(lambda made: recomputing(made, "", 1)) < saved(lambda _: nullcontext()) / 2


def test_the_module_is_as_before_when_the_context_is_left_by_an_error() -> None:
    made = model()
    for change in (recomputing(made, "*", 2), stashing(made, Half)):
        with pytest.raises(ZeroDivisionError), change:
            raise ZeroDivisionError
        assert all("forward" not in module.__dict__ for module in made.modules())


@pytest.mark.parametrize("bits", FORMS)
def test_compressed_activations_learn_about_as_well(bits: int) -> None:
    _, plain = trained(None, 100)
    _, packed = trained(lambda made: stashing(made, FORMS[bits]), 100)
    assert packed[0] == plain[0], "the forward pass computes with whole values"
    assert packed != plain
    assert sum(packed[-10:]) < 1.2 * sum(plain[-10:])


def test_a_byte_keeps_zeros_and_errs_by_half_a_step() -> None:
    flat = torch.relu(torch.randn(10_000))
    restored = Byte(flat).restored()
    assert not restored[flat == 0].any()
    assert (restored - flat).abs().max() <= flat.max() / 255 / 2 * 1.001
    assert torch.equal(Byte(torch.zeros(9)).restored(), torch.zeros(9))


def test_a_storage_that_two_ops_save_is_packed_once() -> None:
    made, packed = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), []

    def pack(flat: Any) -> Half:
        packed.append(flat.numel())
        return Half(flat)

    with stashing(made, pack):
        made(torch.randn(32, 64)).sum().backward()
    assert packed == [32 * 64], "the ReLU's result, which the second product reads too"


def test_without_a_choice_the_numbered_blocks_are_run_again() -> None:
    assert segments_of(KINDS, "", 1) == (("blocks.0",), ("blocks.1",))
    assert segments_of(KINDS, "stem|blocks.*", 1) == (("stem",), ("blocks.0",), ("blocks.1",))


def test_layers_of_a_sequential_are_run_again_together() -> None:
    assert segments_of(KINDS, "head.*", 2) == (("head.0", "head.1"), ("head.2",))
    assert segments_of(KINDS, "head.[02]", 2) == (("head.0",), ("head.2",))


def test_what_cannot_be_run_again_says_why() -> None:
    with pytest.raises(SegmentError, match=r"no layer is called 'tail'.*There are stem"):
        segments_of(KINDS, "tail", 1)
    with pytest.raises(SegmentError, match="no numbered blocks"):
        segments_of({"": "Net", "a": "Linear"}, "", 1)
    with pytest.raises(SegmentError, match="follow one another in a Sequential"):
        segments_of(KINDS, "blocks.*", 2)
