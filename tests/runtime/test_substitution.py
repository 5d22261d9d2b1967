"""Substituted operators give the very same numbers, forward and backward, and are put back."""

from copy import deepcopy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from paceline.runtime.run import Run  # noqa: E402
from paceline.runtime.torch_substitution import CHANGES, FITS, SubstitutionError, substituted  # noqa: E402
from paceline.strategies.substitute import RULES  # noqa: E402


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=1),
        nn.Flatten(),
        nn.Linear(8 * 4, 10),
        nn.ReLU(),
    )


def trained(model: Any) -> list[Any]:
    """What the model gives, and every gradient."""
    given = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1)).round(decimals=1)
    given.requires_grad_()
    made = model(given)
    made.square().sum().backward()
    return [made.detach(), given.grad, *(p.grad for p in model.parameters())]


@pytest.mark.parametrize("rules", [("pool_before_relu",), ("relu_in_place",), tuple(FITS)])
def test_the_numbers_are_the_same_to_the_last_bit(model: Any, rules: tuple[str, ...]) -> None:
    plain = trained(deepcopy(model))
    before = [type(layer) for layer in model]
    with substituted(Run(model, None), rules):
        changed = trained(model)
    assert all(torch.equal(one, other) for one, other in zip(plain, changed))
    assert [type(layer) for layer in model] == before
    assert not any(getattr(layer, "inplace", False) for layer in model)


def test_rules_do_what_they_say(model: Any) -> None:
    with substituted(Run(model, None), ("pool_before_relu",)):
        assert [type(layer) for layer in model][2:4] == [nn.MaxPool2d, nn.ReLU]
    with substituted(Run(model, None), ("relu_in_place",)):
        assert [layer.inplace for layer in model if type(layer) is nn.ReLU] == [True] * 3


def test_layers_with_hooks_or_several_places_are_left_alone(model: Any) -> None:
    model[9] = model[5]
    model[2].register_forward_hook(lambda *_: None)
    entering = substituted(Run(model, None), ("relu_in_place",))
    with pytest.raises(SubstitutionError, match="used once and without hooks"), entering:
        raise AssertionError("entered")


def test_every_rule_has_both_halves() -> None:
    assert {rule.name for rule in RULES} == set(FITS) == set(CHANGES)
