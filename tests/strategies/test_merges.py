"""What each method makes of the mean of the ranks' weights, worked out by hand."""

import pytest

torch = pytest.importorskip("torch")

from paceline.errors import PacelineError  # noqa: E402
from paceline.runtime.rounds import Merge, ReplicaFragment  # noqa: E402
from paceline.strategies import parse  # noqa: E402
from paceline.strategies.seldom import Seldom  # noqa: E402


def begun(text: str, *states: "torch.Tensor") -> "tuple[Merge, ReplicaFragment, torch.Tensor]":
    change, weight = parse(text), torch.tensor([1.0, 2.0])
    assert isinstance(change, Seldom)
    part = ReplicaFragment(0, (weight,), lambda: states)
    merge = change.merge()
    merge.begin(part)
    return merge, part, weight


def test_the_average_takes_the_weights_place() -> None:
    merge, part, weight = begun("local_sgd")
    assert merge.pack(part).tolist() == [1.0, 2.0]
    merge.take(part, torch.tensor([5.0, 7.0]))
    assert weight.tolist() == [5.0, 7.0]


def test_as_many_states_as_the_optimizer_holds_are_averaged() -> None:
    momentum = torch.tensor([3.0, 4.0])
    merge, part, _ = begun("local_sgd(states=1)", momentum)
    assert merge.pack(part).tolist() == [1.0, 2.0, 3.0, 4.0]
    merge.take(part, torch.tensor([0.0, 0.0, 9.0, 8.0]))
    assert momentum.tolist() == [9.0, 8.0]
    merge, part, _ = begun("local_sgd(states=1)")
    with pytest.raises(PacelineError, match="it holds 0 for 1 weights"):
        merge.pack(part)


def test_the_anchor_gathers_speed_and_weights_are_pulled_towards_it() -> None:
    merge, part, weight = begun("overlap_local_sgd(pullback=0.5, momentum=0.5)")
    weight.add_(2.0)
    merge.take(part, torch.tensor([2.0, 3.0]))  # the anchor moves by 1
    assert weight.tolist() == [2.5, 3.5]
    merge.take(part, torch.tensor([2.0, 3.0]))  # and by half of that: the mean has not moved
    assert weight.tolist() == [2.5, 3.5]
    assert merge.pack(part).tolist() == [2.5, 3.5]


def test_the_outer_optimizer_is_torchs_sgd_with_nesterovs_momentum() -> None:
    merge, part, weight = begun("diloco(outer_lr=0.7, outer_momentum=0.9)")
    theirs = torch.tensor([1.0, 2.0], requires_grad=True)
    outer = torch.optim.SGD([theirs], lr=0.7, momentum=0.9, nesterov=True)
    for moved in (0.5, -0.25, 0.125):
        weight.add_(moved)
        gradient = merge.pack(part)
        theirs.grad = theirs.detach() - weight
        assert torch.allclose(gradient, theirs.grad)
        merge.take(part, gradient)
        outer.step()
        assert torch.allclose(weight, theirs.detach())


def test_mixing_keeps_a_share_of_a_workers_own_weights() -> None:
    merge, part, weight = begun("diloco(outer_lr=1.0, outer_momentum=0.0, mixing=0.25)")
    weight.add_(4.0)
    merge.take(part, torch.tensor([-2.0, -2.0]))
    assert weight.tolist() == [3.5, 4.5]  # a quarter of 5 and 6, three of 3 and 4


@pytest.mark.parametrize("text", ["overlap_local_sgd", "diloco", "diloco(mixing=0.25)"])
def test_more_weights_than_a_block_of_the_cache_become_what_each_becomes_alone(text: str) -> None:
    change = parse(text)
    assert isinstance(change, Seldom)
    drawn = torch.rand(4, 150_000, generator=torch.Generator().manual_seed(0))

    def ends(columns: slice) -> "torch.Tensor":
        weight, *means = (row[columns].clone() for row in drawn)
        part, merge = ReplicaFragment(0, (weight,), lambda: ()), change.merge()
        merge.begin(part)
        for mean in means:
            merge.take(part, mean)
        return weight

    whole = ends(slice(None))
    parts = [ends(slice(at, at + 1_000)) for at in range(0, 150_000, 1_000)]
    assert torch.allclose(whole, torch.cat(parts))
    assert not torch.allclose(whole, drawn[0])
