"""Weight gradients behind input gradients: the same bits in another order, and all put back."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import paceline  # noqa: E402
from paceline.runtime.torch_late_gradients import LateError  # noqa: E402

pytestmark = pytest.mark.usefixtures("group_of_one")

WIDTH = 12


class Net(nn.Module):
    """An embedding, blocks, and a head; what passes through them is up to a test."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(WIDTH, 24, bias=False),
                nn.ReLU(inplace=True),
                nn.Linear(24, WIDTH),
                nn.LayerNorm(WIDTH),
            )
            for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, 20)
        self.through: Callable[[nn.Module, Any], Any] = lambda block, x: x + block(x)

    def forward(self, words: Any) -> Any:
        x = self.embed(words)
        for block in self.blocks:
            x = self.through(block, x)
        return self.head(x.transpose(0, 1))  # whose rows do not follow one another


def twice(block: nn.Module, x: Any) -> Any:
    return block(block(block(x)))


def without(block: nn.Module, x: Any) -> Any:
    with torch.no_grad():
        seen = block(x)
    return x * seen + block(x)


def anew(block: nn.Module, x: Any) -> Any:
    return checkpoint(block, x, use_reentrant=False)


def anew_reentrant(block: nn.Module, x: Any) -> Any:
    return checkpoint(block, x, use_reentrant=True)


def rounded(block: nn.Module, x: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return x + block(x)


def net(change: Callable[[Net], None] = lambda made: None) -> DistributedDataParallel:
    torch.manual_seed(1)
    made = Net()
    change(made)
    return DistributedDataParallel(made)


def trained(
    late: bool, change: Callable[[Net], None] = lambda made: None, passes: int = 1
) -> list[Any]:
    """Losses and weights of some steps, of so many passes each."""
    model = net(change)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    drawn, losses = torch.Generator().manual_seed(2), []
    with paceline.applied(["late_gradients"], model, optimizer) if late else nullcontext():
        for _ in range(5):
            optimizer.zero_grad()
            for turn in range(passes):
                words = torch.randint(20, (5, 3), generator=drawn)
                with model.no_sync() if turn < passes - 1 else nullcontext():
                    loss = nn.functional.cross_entropy(model(words).mT, words.t())
                    loss.backward()
                losses.append(loss.detach())
            optimizer.step()
    return [*losses, *model.state_dict().values()]


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


@pytest.mark.parametrize("through", [twice, without, anew, anew_reentrant, rounded])
def test_whatever_way_a_layer_runs_it_learns_the_same_bits(
    through: Callable[[nn.Module, Any], Any],
) -> None:
    def change(made: Net) -> None:
        made.through = through

    assert same(trained(True, change), trained(False, change))


def frozen(made: Net) -> None:
    made.blocks[0].requires_grad_(False)
    made.head.bias.requires_grad_(False)


def shared(made: Net) -> None:
    made.head.weight = made.embed.weight
    made.blocks[1][0].weight = made.blocks[0][0].weight


@pytest.mark.parametrize("change", [frozen, shared])
def test_frozen_and_shared_weights_learn_the_same_bits(change: Callable[[Net], None]) -> None:
    assert same(trained(True, change), trained(False, change))


@pytest.mark.parametrize("passes", [1, 3])
def test_gradients_of_several_passes_add_up_to_the_same_bits(passes: int) -> None:
    assert same(trained(True, passes=passes), trained(False, passes=passes))


def order_under(text: str) -> list[str]:
    """Parameters in the order in which a backward pass readies their gradients."""
    model, found = net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for name, parameter in model.module.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: found.append(name))
    words = torch.arange(15).view(5, 3)
    with paceline.applied([text], model, optimizer):
        model(words).square().mean().backward()
    return [name for name in found if name.endswith("weight")]


LINEAR = [*(f"blocks.{i}.{j}.weight" for i in (0, 1) for j in (0, 2)), "head.weight"]


def test_weights_become_ready_behind_all_others_those_of_front_layers_first() -> None:
    assert order_under("late_gradients")[-6:] == ["embed.weight", *LINEAR]


def test_layers_behind_the_first_so_many_are_ready_as_ever() -> None:
    found = order_under("late_gradients(first=2)")
    assert found[0] == LINEAR[4]
    assert found[-3:] == ["embed.weight", *LINEAR[:2]]


def test_the_largest_are_ready_first_where_they_are_asked_to_be() -> None:
    by_size = [LINEAR[i] for i in (0, 1, 2, 3, 4)]  # 24 x 12 each but for the head's 20 x 12
    assert order_under("late_gradients(order='largest')")[-5:] == by_size


def test_forward_passes_are_put_back() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    linear = [m for m in model.modules() if type(m) is nn.Linear]
    with paceline.applied(["late_gradients"], model, optimizer):
        assert all("forward" in vars(layer) for layer in linear)
    assert not any("forward" in vars(layer) for layer in linear)


def test_gradients_of_gradients_are_refused() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    words = torch.arange(15).view(5, 3)
    with paceline.applied(["late_gradients"], model, optimizer):
        x = model.module.embed(words)
        loss = model.module.blocks[0](x).square().mean()
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.square().sum().backward()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (nn.Linear(2, 2), "no DistributedDataParallel"),
        (nn.Conv1d(2, 2, 1), "no plain linear layer"),
    ],
)
def test_jobs_with_nothing_to_hold_back_are_refused_before_they_run(
    model: nn.Module, said: str
) -> None:
    if isinstance(model, nn.Conv1d):
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(LateError, match=said):
        paceline.applied(["late_gradients"], model, optimizer).__enter__()
