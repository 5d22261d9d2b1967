"""Which layers are known to feed one another through elementwise work alone."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from paceline.runtime.pairs.torch_chains import Chains  # noqa: E402


class Between(nn.Module):
    """Two layers, with what a test puts between them."""

    def __init__(self, between: Any) -> None:
        super().__init__()
        self.first, self.second, self.between = nn.Linear(4, 4), nn.Linear(4, 4), between

    def forward(self, x: Any) -> Any:
        return self.second(self.between(self.first(x)))


class Own(Between):
    """A forward pass of its own, which also notes what it saw."""

    def __init__(self, run: Any) -> None:
        super().__init__(None)
        self.run, self.seen = run, None

    def forward(self, x: Any) -> Any:
        self.seen = x
        return self.run(self, x)


def steps(module: Any, x: Any) -> Any:
    made = functional.dropout(functional.gelu(module.first(x)), 0.1, module.training)
    return module.second(input=made.tanh())


def branched(module: Any, x: Any) -> Any:
    made = module.first(x)
    return module.second(made.relu() if made.sum() > 0 else made)


def nested(*outer: nn.Module) -> nn.Module:
    inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    return nn.Sequential(nn.Sequential(inner, *outer), nn.Linear(4, 4))


@pytest.mark.parametrize(
    "model",
    [Between(kind()) for kind in (nn.ReLU, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Dropout)]
    + [Between(nn.Sequential(nn.Tanh(), nn.Identity())), Own(steps)],
    ids=lambda model: type(model.between or model).__name__,
)
def test_activations_and_dropout_join_two_layers(model: Any) -> None:
    assert Chains(nn.Sequential(model)).joined("0.first", "0.second")
    assert getattr(model, "seen", None) is None  # no symbol is left behind


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Between(nn.LayerNorm(4)), "norm"),
        (Between(nn.Softmax(-1)), "softmax"),
        (Own(lambda m, x: m.second(m.first(x) + x)), "residual"),
        (Own(lambda m, x: m.second(m.first(x).relu() * m.first(x))), "twice"),
        (Own(lambda m, x: (m.second((y := m.first(x)).relu()), y)), "also read"),
        (Own(lambda m, x: m.second(m.first(x).view(-1, 4).relu())), "shape"),
        (Own(lambda m, x: (m.first(x).relu(), m.second(x))), "beside"),
        (Own(branched), "control flow"),
        (Own(lambda m, x: m.second(m.first(x) @ m.first.weight)), "product"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_else_is_between_two_layers_keeps_them_apart(model: Any, why: str) -> None:
    assert not Chains(model).joined("first", "second"), why


def test_layers_are_found_through_modules_that_hold_them() -> None:
    assert Chains(nested(nn.Dropout())).joined("0.0.0", "1")
    assert not Chains(nested(nn.LayerNorm(4))).joined("0.0.0", "1")


def test_hooks_that_would_see_parts_keep_layers_apart() -> None:
    for at in ("0", "0.0", "0.0.1", "1"):
        model = nested()
        assert Chains(model).joined("0.0.0", "1")
        model.get_submodule(at).register_forward_hook(lambda *_: None)
        assert not Chains(model).joined("0.0.0", "1")


@pytest.mark.parametrize("kind", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_torchs_own_transformer_layers_are_known(kind: Any) -> None:
    known = nn.Sequential(kind(4, 2, 8))
    assert Chains(known).joined("0.linear1", "0.linear2")
    assert not Chains(known).joined("0.self_attn.out_proj", "0.linear1")
    assert not Chains(kind(4, 2, 8, activation=lambda x: x.flip(-1))).joined("linear1", "linear2")
