"""Linear layers of one input as one product: the same numbers, and all put back."""

from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import paceline  # noqa: E402
from paceline.runtime.run import Run  # noqa: E402
from paceline.runtime.torch_merged_products import mergeable, products_merged  # noqa: E402
from paceline.runtime.torch_substitution import MERGE, SubstitutionError, substituted  # noqa: E402
from paceline.strategies.substitute import MERGE as PREDICTED  # noqa: E402
from paceline.strategies.substitute import NAMES  # noqa: E402


class Attention(nn.Module):
    """Views that only some layouts allow, a scale in place, and a layer that reads its result."""

    def __init__(self, *, bias: bool = True, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(12, 12, bias=bias)
        self.key = nn.Linear(12, 12, bias=bias)
        self.value = nn.Linear(12, 8, bias=bias)
        self.out = nn.Linear(8, 12, bias=bias)

    def forward(self, given: Any, other: Any = None) -> Any:
        other = given if other is None else other
        steps, batch, _ = given.shape
        query, key, value = self.query(given), self.key(other), self.value(other)
        query *= 0.5
        query = query.view(steps, batch * self.heads, 6).transpose(0, 1)
        key = key.view(len(other), batch * self.heads, 6).transpose(0, 1)
        value = value.view(len(other), batch * self.heads, 4).transpose(0, 1)
        made = torch.softmax(query @ key.mT, -1) @ value
        return self.out(made.transpose(0, 1).reshape(steps, batch, 8))


class Net(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.one, self.two = Attention(bias=bias), Attention(bias=bias)

    def forward(self, given: Any) -> Any:
        first = self.one(given)
        return self.two(first, given)  # keys and values of another input


def trained(merged: bool, bias: bool) -> list[Any]:
    torch.manual_seed(1)
    made = Net(bias)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1, momentum=0.9)
    drawn, losses = torch.Generator().manual_seed(2), []
    with products_merged(made) if merged else nullcontext():
        for _ in range(6):
            given = torch.randn(5, 3, 12, generator=drawn)
            loss = (made(given) - given).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        held = {p.untyped_storage().data_ptr() for p in made.parameters()}
    assert (len(held) < len(list(made.parameters()))) == merged
    assert len({p.untyped_storage().data_ptr() for p in made.parameters()}) == len(
        list(made.parameters())
    )
    return [*losses, *made.state_dict().values()]


@pytest.mark.parametrize("bias", [True, False])
def test_training_is_the_same_but_for_the_order_of_sums(bias: bool) -> None:
    for one, other in zip(trained(False, bias), trained(True, bias)):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)


def test_layers_that_read_one_input_alone_are_merged() -> None:
    made = Net(True)
    assert [len(layers) for layers in mergeable(made)] == [3, 3]
    calls: list[Any] = []
    plain = nn.functional.linear
    with pytest.MonkeyPatch.context() as patch, products_merged(made):
        made(torch.randn(4, 2, 12))
        patch.setattr(
            nn.functional, "linear", lambda *given: calls.append(given[1].shape[0]) or plain(*given)
        )
        made(torch.randn(4, 2, 12))
    assert calls == [32, 12, 12, 20, 12], "three as one; the second block's query by itself"


def test_sequences_and_models_without_such_layers_are_refused() -> None:
    sequence = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    assert mergeable(sequence) == []
    entering = substituted(Run(sequence, None), (MERGE,))
    with pytest.raises(SubstitutionError, match="one module that read one input"), entering:
        raise AssertionError("entered")


def test_the_rule_has_one_name_in_both_halves() -> None:
    assert MERGE == PREDICTED == NAMES[-1]


def test_an_error_within_leaves_weights_in_their_own_memory() -> None:
    made = Net(True)
    before = [p.data_ptr() for p in made.parameters()]
    merging = products_merged(made)
    merging.__enter__()
    for _ in range(2):  # the first pass is watched
        made(torch.randn(4, 2, 12))
    assert [p.data_ptr() for p in made.parameters()] != before
    assert not merging.__exit__(KeyError, KeyError(), None)
    assert [p.data_ptr() for p in made.parameters()] == before
    assert all("forward" not in vars(module) for module in made.modules())


def test_layers_that_run_again_in_the_backward_pass_train_the_same() -> None:
    learnt = []
    for plan in (["substitute(rules='merge_products')", "checkpoint(layers='one|two')"], []):
        torch.manual_seed(1)
        made = Net(True)
        optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
        with paceline.applied(plan, made, optimizer):
            for given in torch.randn(3, 5, 3, 12, generator=torch.Generator().manual_seed(2)):
                optimizer.zero_grad()
                made(given).square().mean().backward()
                optimizer.step()
        learnt.append(torch.cat([p.detach().flatten() for p in made.parameters()]))
    assert torch.allclose(*learnt, rtol=1e-4, atol=1e-6)
