"""Whether a layer of a live model takes what another gives through elementwise work alone.

The module that holds both is traced by `torch.fx`, in which what holds neither is one step each.
What cannot be traced proves nothing; torch's own transformer layers are known.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

_MODULES = (nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.ELU,
            nn.Dropout, nn.Identity)  # fmt: skip
_FUNCTIONS = {
    *(torch.relu, torch.relu_, torch.tanh, torch.sigmoid, functional.relu, functional.relu_),
    *(functional.relu6, functional.gelu, functional.silu, functional.tanh, functional.sigmoid),
    *(functional.leaky_relu, functional.elu, functional.dropout),
}
_METHODS = {"relu", "relu_", "tanh", "tanh_", "sigmoid", "sigmoid_"}
_TRANSFORMERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
"""They call linear2(dropout(activation(linear1(x)))), whatever else they do."""


class Chains:
    """Of one model."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = dict(model.named_modules(remove_duplicate=False))

    def joined(self, first: str, second: str) -> bool:
        """By the paths of two layers: whether the second's input is the first's result, after
        elementwise work, and nobody else reads what is between."""
        above = _common(first, second)
        holder = self._modules[above]
        inner = [path.removeprefix(f"{above}.") for path in (first, second)]
        if type(holder) in _TRANSFORMERS:
            return inner == ["linear1", "linear2"] and _known(holder)
        traced = _traced(holder, inner)
        return traced is not None and _passes(traced, holder, *inner)


def _common(first: str, second: str) -> str:
    """The path of the innermost module that holds both."""
    ours, theirs = first.split(".")[:-1], second.split(".")[:-1]
    shared = [a for at, a in enumerate(ours) if theirs[: at + 1] == ours[: at + 1]]
    return ".".join(shared)


def _known(layer: Any) -> bool:
    modules = [m for m in (layer.dropout, layer.activation) if isinstance(m, nn.Module)]
    steps = type(layer.dropout) is nn.Dropout and _is_step(layer.activation)
    own = [layer.linear1, layer.linear2, *modules]
    return steps and "forward" not in vars(layer) and not any(map(hooked, own))


def _is_step(activation: Any) -> bool:
    if isinstance(activation, nn.Module):
        return type(activation) in _MODULES
    return activation in _FUNCTIONS


def hooked(module: nn.Module) -> bool:
    """Whether hooks would see what passes through it."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name) for name in hooks)


class _Tracer(fx.Tracer):  # type: ignore[misc]
    """Goes into sequences, and into modules that hold one of the layers."""

    def __init__(self, layers: list[str]) -> None:
        super().__init__()
        self._layers = layers

    def is_leaf_module(self, module: nn.Module, path: str) -> bool:
        holds = any(layer.startswith(f"{path}.") for layer in self._layers)
        return not holds and type(module) is not nn.Sequential


def _traced(holder: nn.Module, layers: list[str]) -> fx.Graph | None:
    try:
        with _as_it_was(holder), torch.no_grad():
            return _Tracer(layers).trace(holder)
    except Exception:  # noqa: BLE001  # whatever a forward pass does that symbols cannot
        return None


@contextmanager
def _as_it_was(holder: nn.Module) -> Iterator[None]:
    """What a forward pass keeps on its modules would be symbols."""
    before = [(module, dict(vars(module))) for module in holder.modules()]
    try:
        yield
    finally:
        for module, kept in before:
            vars(module).clear()
            vars(module).update(kept)


def _passes(traced: fx.Graph, holder: nn.Module, first: str, second: str) -> bool:
    """From the second layer back to the first, each called once."""
    ends = [_only_call(traced, layer) for layer in (first, second)]
    if None in ends:
        return False
    source, node = ends
    steps = 0
    while node is not source:
        if len(node.all_input_nodes) != 1 or _seen(holder, node):
            return False
        node = node.all_input_nodes[0]
        if len(node.users) != 1 or not (node is source or _elementwise(holder, node)):
            return False
        steps += 1
    return steps > 1 and not _seen(holder, source)


def _only_call(traced: fx.Graph, layer: str) -> Any:
    calls = [node for node in traced.nodes if node.op == "call_module" and node.target == layer]
    return calls[0] if len(calls) == 1 else None


def _elementwise(holder: nn.Module, node: fx.Node) -> bool:
    if node.op == "call_module":
        return type(holder.get_submodule(str(node.target))) in _MODULES
    if node.op == "call_function":
        return node.target in _FUNCTIONS
    return node.op == "call_method" and node.target in _METHODS


def _seen(holder: nn.Module, node: fx.Node) -> bool:
    """Whether a module on the way, or one that it is in, has hooks."""
    if node.op != "call_module":
        return False
    parts = str(node.target).split(".")
    paths = (".".join(parts[: at + 1]) for at in range(len(parts)))
    return any(hooked(holder.get_submodule(path)) for path in paths)
