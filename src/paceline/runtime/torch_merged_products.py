"""Linear layers that read one input, as one product of their weights side by side.

Weights lie in one tensor while the rule is in force, each parameter a part of it. The first forward
pass shows which layers of one parent are called with the same tensor, one after the other; from the
second on the first of them makes the results of all.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from paceline.runtime.torch_forward import forward_as


def mergeable(model: nn.Module) -> list[list[nn.Linear]]:
    """Layers of one parent, in the order of their names there, that may read one input. Layers with
    numbers follow one another, as in a sequence, and read each other's results."""
    owners: dict[int, int] = {}
    for module in model.modules():
        for tensor in module.parameters(recurse=False):
            owners[id(tensor)] = owners.get(id(tensor), 0) + 1
    found: dict[tuple[int, int, bool], list[nn.Linear]] = {}
    for parent in model.modules():
        for name, child in parent.named_children():
            if not name.isdecimal() and _plain(child) and owners[id(child.weight)] == 1:
                key = (id(parent), child.in_features, child.bias is None)
                found.setdefault(key, []).append(child)
    return [layers for layers in found.values() if len(layers) > 1]


def _plain(module: nn.Module) -> bool:
    return type(module) is nn.Linear and type(module.weight) is nn.Parameter


@contextmanager
def products_merged(model: nn.Module) -> Iterator[None]:
    """Until the context is left, by an error too."""
    with ExitStack() as stack:
        found: list[list[nn.Linear]] | None = None
        groups: list[MergedLayers] | None = None

        def wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
            def run(*given: Any, **named: Any) -> Any:
                nonlocal found, groups
                if found is None:
                    with _watching(mergeable(model)) as seen:
                        results = forward(*given, **named)
                    found = list(seen())
                    return results
                if groups is None:  # not before, for layers may run again in the first backward
                    groups = [stack.enter_context(_in_force(layers)) for layers in found]
                with _Reshaping(), _passing(groups):
                    return forward(*given, **named)

            return run

        stack.enter_context(forward_as(model, wrapped))
        yield


@contextmanager
def _passing(groups: list["MergedLayers"]) -> Iterator[None]:
    """A forward pass of the model. Layers that run again in the backward pass are outside of it."""
    for group in groups:
        group.passing = True
    try:
        yield
    finally:
        for group in groups:
            group.forget()


@contextmanager
def _watching(candidates: list[list[nn.Linear]]) -> Iterator[Callable[[], list[list[nn.Linear]]]]:
    """Which layers are called with the same tensor, one after the other."""
    calls: list[tuple[nn.Linear, Any]] = []  # inputs are kept, so that no other takes their place

    def called(module: Any, given: Any) -> None:
        calls.append((module, given[0] if given else None))

    hooks = [m.register_forward_pre_hook(called) for layers in candidates for m in layers]
    try:
        yield lambda: list(_same_input(calls, candidates))
    finally:
        for hook in hooks:
            hook.remove()


def _same_input(
    calls: Sequence[tuple[nn.Linear, Any]], candidates: list[list[nn.Linear]]
) -> Iterator[list[nn.Linear]]:
    once = [module for module, _ in calls]
    for layers in candidates:
        mine = [(m, x) for m, x in calls if any(m is layer for layer in layers)]
        while mine:
            same = [m for m, x in mine if x is mine[0][1]]
            if len(same) > 1 and all(once.count(m) == 1 for m in same):
                yield same
            mine = [(m, x) for m, x in mine if x is not mine[0][1]]


@contextmanager
def _in_force(layers: list[nn.Linear]) -> Iterator["MergedLayers"]:
    group = MergedLayers(layers)
    with ExitStack() as stack:
        for tensors in (group.weights, group.biases):
            stack.enter_context(_side_by_side(tensors))
        for turn, layer in enumerate(layers):
            stack.enter_context(forward_as(layer, group.answering(turn)))
        yield group


@contextmanager
def _side_by_side(tensors: list[Tensor]) -> Iterator[None]:
    """The parameters as parts of one tensor; then in their own memory again."""
    before = [tensor.data for tensor in tensors]
    if tensors:
        whole = torch.cat(before)
        for tensor, part in zip(tensors, whole.split([len(t) for t in before])):
            tensor.data = part
    try:
        yield
    finally:
        for tensor, own in zip(tensors, before):
            tensor.data = own.copy_(tensor.data)


class MergedLayers:
    """Layers whose results come from one product."""

    def __init__(self, layers: list[nn.Linear]) -> None:
        self.weights: list[Tensor] = [layer.weight for layer in layers]
        self.biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        self.passing = False  # else views of results need a copy of them
        self._given: Tensor | None = None
        self._made: dict[int, Tensor] = {}  # by turn: results that are still to be asked for

    def answering(self, turn: int) -> Callable[[Callable[..., Any]], Callable[[Tensor], Tensor]]:
        """The forward pass of one of the layers."""

        def wrapped(forward: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
            def run(inputs: Tensor) -> Tensor:
                if turn == 0 and not torch.is_autocast_enabled(inputs.device.type):
                    self._given, made = inputs, _Products.apply(inputs, self, *self.tensors)
                    self._made = dict(enumerate(made))
                if inputs is self._given and turn in self._made:
                    made = self._made.pop(turn)
                    return made if self.passing else made.contiguous()
                result: Tensor = forward(inputs)
                return result

            return run

        return wrapped

    def forget(self) -> None:
        """What nobody asked for, behind a pass."""
        self.passing, self._given, self._made = False, None, {}

    @property
    def tensors(self) -> list[Tensor]:
        return [*self.weights, *self.biases]

    def whole(self) -> tuple[Tensor, Tensor | None]:
        """All weights and all biases."""
        return _joined(self.weights), _joined(self.biases) if self.biases else None


def _joined(tensors: list[Tensor]) -> Tensor:
    """As they lie, or copied where something else has moved them meanwhile."""
    at, size = tensors[0].data_ptr(), 0
    for tensor in tensors:
        if tensor.data_ptr() != at + size:
            return torch.cat([t.detach() for t in tensors])
        size += tensor.numel() * tensor.element_size()
    first = tensors[0].detach()
    shape = (sum(len(t) for t in tensors), *first.shape[1:])
    return first.as_strided(shape, first.stride())


class _Products(torch.autograd.Function):  # type: ignore[misc]
    """Rows times all weights, and gradients of each."""

    @staticmethod
    def forward(
        context: Any, inputs: Tensor, group: MergedLayers, *parts: Tensor
    ) -> tuple[Tensor, ...]:
        weight, bias = group.whole()
        context.save_for_backward(inputs, weight)
        context.sizes = [len(tensor) for tensor in group.weights]
        context.biased = bias is not None
        made = functional.linear(inputs, weight, bias).split(context.sizes, -1)
        return tuple(
            part.new_empty(0).set_(part) for part in made
        )  # no views, which may not change

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        inputs, weight = context.saved_tensors
        whole = torch.cat(gradients, -1).flatten(0, -2)
        back = (whole @ weight).view(inputs.shape) if context.needs_input_grad[0] else None
        weights = (whole.t() @ inputs.reshape(-1, inputs.shape[-1])).split(context.sizes)
        biases = whole.sum(0).split(context.sizes) if context.biased else ()
        return back, None, *weights, *biases


class _Reshaping(TorchFunctionMode):  # type: ignore[misc]
    """Results lie between those of the other layers, so that some views of them need a copy."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.view and not args[0].is_contiguous() and not _is_type(args[1:]):
            return args[0].reshape(*args[1:], **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _is_type(given: Sequence[Any]) -> bool:
    """`view` also reads bytes as another type."""
    return bool(given) and isinstance(given[0], torch.dtype)
