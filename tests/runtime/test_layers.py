"""Structured layers equal the dense weights that they stand for, in both passes, and go again."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from paceline.runtime.layers import (  # noqa: E402
    LayerError,
    Remaking,
    torch_circulant,
)
from paceline.runtime.layers.torch_circulant import Circulant, nearest_circulant  # noqa: E402
from paceline.runtime.layers.torch_circulant_kernels import nearest  # noqa: E402
from paceline.runtime.layers.torch_composed import composed, thin, truncated  # noqa: E402
from paceline.runtime.layers.torch_swapped import swapped  # noqa: E402
from paceline.runtime.run import Run  # noqa: E402
from paceline.strategies import parse  # noqa: E402
from paceline.strategies.remodelling import Remodelling  # noqa: E402

EVERY = {
    "circulant": lambda weight: nearest_circulant(weight, 4),
    "odd circulant": lambda weight: nearest_circulant(weight, 3),
    "composed": lambda weight: composed(weight, 3),
    "thin": lambda weight: thin(weight, 5),
}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def drawn(rows: int, columns: int) -> Any:
    return torch.randn(rows, columns, dtype=torch.double)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("shape", [(24, 12), (12, 24)])
def test_a_structure_multiplies_as_its_dense_weight(name: str, shape: tuple[int, int]) -> None:
    made, given = EVERY[name](drawn(*shape)), drawn(5, shape[1]).requires_grad_()
    again, back = given.detach().clone().requires_grad_(), drawn(5, shape[0])
    (made(given) * back).sum().backward()
    mine = [p.grad.clone() for p in made.parameters()]
    for parameter in made.parameters():
        parameter.grad = None
    (again @ _with_history(made).T * back).sum().backward()
    assert torch.allclose(made(given), given @ made.dense().T)
    assert torch.allclose(given.grad, again.grad)
    for one, parameter in zip(mine, made.parameters()):
        assert torch.allclose(one, parameter.grad)


def _with_history(made: Any) -> Any:
    """The dense weight through torch's own operations."""
    if isinstance(made, Circulant):
        return made.dense()
    weight, *others = made.parameters()
    for factor in others:
        weight = factor @ weight
    return weight


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("settings", [(1, 1, 1), (2, 0, 1), ((1, 2), "valid", (2, 1))])
def test_a_kernel_of_circulant_blocks_is_the_dense_convolution(k: int, settings: Any) -> None:
    weight = torch.randn(12, 24, 3, 2, dtype=torch.double)
    made = nearest(weight, k)
    images = torch.randn(2, 24, 7, 8, dtype=torch.double, requires_grad=True)
    result = made(images, *settings)
    back = torch.randn_like(result)
    mine = torch.autograd.grad(result, (images, *made.parameters()), back)
    dense = made.dense()
    theirs = torch.nn.functional.conv2d(images, dense, None, *settings)
    assert torch.allclose(result, theirs)
    again = torch.autograd.grad(theirs, (images, *made.parameters()), back)
    assert all(torch.allclose(one, other) for one, other in zip(mine, again))
    assert torch.allclose(nearest(dense.detach(), k).dense(), dense)


def test_convolutions_are_made_anew_and_end_dense() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.Conv2d(8, 16, 3, stride=2),
        torch.nn.Conv2d(16, 16, 3, groups=2),
    )
    run = Run(model, torch.optim.SGD(model.parameters(), lr=0.1))
    change = parse("block_circulant(block=4)")
    assert isinstance(change, Remodelling)
    kinds = [type(layer) for layer in model]
    with change.apply(run):
        changed = [type(layer) for layer in model]
        assert [one is not other for one, other in zip(kinds, changed)] == [False, True, False]
        for _ in range(2):
            run.optimizer.zero_grad()
            model(torch.randn(2, 3, 9, 9)).square().mean().backward()
            run.optimizer.step()
        kept = model.state_dict()
    assert [type(layer) for layer in model] == kinds
    assert torch.equal(model[1].weight, kept["1.weight"])
    assert torch.allclose(nearest(model[1].weight.detach(), 4).dense(), model[1].weight, atol=1e-6)


def test_long_blocks_are_transformed_as_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = nearest_circulant(drawn(8, 12), 4), drawn(3, 12)
    short = torch.autograd.grad(made(given).square().sum(), made.vectors)[0]
    monkeypatch.setattr(torch_circulant, "SHORT", 0)
    long = torch.autograd.grad(made(given).square().sum(), made.vectors)[0]
    assert torch.allclose(short, long)


def test_the_nearest_circulant_of_a_circulant_is_itself() -> None:
    weight = nearest_circulant(drawn(12, 8), 4).dense()
    assert torch.allclose(nearest_circulant(weight, 4).dense(), weight)


def test_no_circulant_is_nearer_than_the_nearest() -> None:
    weight = drawn(8, 8)
    found = nearest_circulant(weight, 4)
    distance = (found.dense() - weight).norm()
    for _ in range(20):
        moved = Circulant(found.vectors.detach() + 0.01 * torch.randn_like(found.vectors))
        assert (moved.dense() - weight).norm() > distance


def test_a_composed_weight_begins_as_the_dense_one_and_balanced() -> None:
    weight = drawn(6, 9)
    made = composed(weight, 3)
    norms = [factor.norm() for factor in made.parameters()]
    assert torch.allclose(made.dense(), weight)
    assert torch.allclose(norms[0], norms[2])


def test_truncation_keeps_the_asked_rank_or_energy() -> None:
    weight = torch.diag(torch.tensor([3.0, 2.0, 1.0]))
    assert torch.linalg.matrix_rank(truncated(weight, 2, 1.0)) == 2
    assert torch.linalg.matrix_rank(truncated(weight, 0, 0.9)) == 2
    assert torch.linalg.matrix_rank(truncated(weight, 0, 0.5)) == 1
    assert torch.allclose(truncated(weight, 0, 1.0), weight)


@pytest.fixture
def run() -> Run:
    """A small model under momentum, two steps in."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 8))
    made = Run(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    for _ in range(2):
        step(made)
    return made


def step(run: Run) -> None:
    run.optimizer.zero_grad()
    run.model(torch.randn(4, 8)).square().mean().backward()
    run.optimizer.step()


def made_anew(run: Run) -> Any:
    return swapped(run, Remaking(lambda weight: nearest_circulant(weight, 4)), lambda *_: True)


def test_leaving_puts_back_tensors_and_the_optimizers_state(run: Run) -> None:
    tensors = list(run.model.parameters())
    momentum = run.optimizer.state[tensors[0]]["momentum_buffer"].clone()
    with made_anew(run):
        step(run)
        assert len(run.optimizer.param_groups[0]["params"]) == 4
        dense = run.model.state_dict()["0.weight"].clone()
    assert [id(p) for p in run.model.parameters()] == [id(p) for p in tensors]
    assert [id(p) for p in run.optimizer.param_groups[0]["params"]] == [id(p) for p in tensors]
    assert torch.equal(run.optimizer.state[tensors[0]]["momentum_buffer"], momentum)
    assert torch.equal(tensors[0], dense)
    assert set(run.optimizer.state) == set(tensors)


def test_checkpoints_taken_meanwhile_load_without(run: Run) -> None:
    with made_anew(run):
        step(run)
        weights, state = run.model.state_dict(), run.optimizer.state_dict()
    fresh = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 8))
    other = torch.optim.SGD(fresh.parameters(), lr=0.1, momentum=0.9)
    fresh.load_state_dict(weights)
    other.load_state_dict(state)
    step(Run(fresh, other))
    biases = [fresh[0].bias, fresh[2].bias]
    assert list(weights) == list(fresh.state_dict())
    assert sorted(state["state"]) == [1, 3]
    assert all("momentum_buffer" in other.state[bias] for bias in biases)


def test_a_checkpoint_loads_into_structured_layers(run: Run) -> None:
    with made_anew(run):
        step(run)
        kept = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
        step(run)
        run.model.load_state_dict(kept)
        again = run.model.state_dict()
    assert all(torch.allclose(again[name], kept[name]) for name in kept)


def test_an_error_within_leaves_a_dense_model(run: Run) -> None:
    with pytest.raises(KeyboardInterrupt), made_anew(run):
        raise KeyboardInterrupt
    assert type(run.model[0]) is torch.nn.Linear


def test_layers_that_do_not_fit_are_named(run: Run) -> None:
    entering = swapped(run, Remaking(lambda weight: weight), lambda *_: False)
    with pytest.raises(LayerError, match=r"it has 0 \(12, 8\), 2 \(8, 12\)"), entering:
        raise AssertionError("entered")


def test_a_weight_that_two_layers_share_is_left_alone(run: Run) -> None:
    run.model.append(torch.nn.Linear(8, 12))
    run.model[3].weight = run.model[0].weight
    with made_anew(run):
        assert type(run.model[0]) is torch.nn.Linear
        assert type(run.model[2]) is not torch.nn.Linear


def test_circulant_layers_multiply_in_their_own_type_under_autocast() -> None:
    for layer, given in (
        (nearest(torch.randn(8, 16), 4), torch.randn(3, 16)),
        (nearest(torch.randn(8, 16, 3, 3), 4), torch.randn(2, 16, 5, 5)),
    ):
        settings = () if given.dim() == 2 else (1, 0, 1)
        plain = layer(given.bfloat16().float(), *settings)
        with torch.autocast("cpu", torch.bfloat16):
            made = layer(given.bfloat16(), *settings)
        made.sum().backward()
        assert torch.equal(made, plain)
        assert all(p.grad is not None for p in layer.parameters())
