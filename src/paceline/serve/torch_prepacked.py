"""The same model on weights that oneDNN has laid out once, before instances are forked.

torch hands products of float32 to MKL, which is slow on processors that are not Intel's (half of
oneDNN's speed on an AMD EPYC), and changes a convolution's weights into oneDNN's order at every
call. Packed weights go to oneDNN's own kernels. Where torch.fx can follow the model, batch norms
are folded into the convolutions before them, and channels lie last.

Answers are the same but for rounding. Wrong for a model that changes its own weights while it
serves: packed ones stay as they were. They take memory once more, convolutions that a batch norm
was folded into twice, and all instances share it.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import fx, nn
from torch.utils._python_dispatch import TorchDispatchMode

from paceline.serve.torch_model import ServedModel

Key = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Where a weight lies, its shape and its strides: views of one weight are told apart."""

SEEN, MANY = 2, 8
"""Samples in the run that shows how weights are used, and in a batch that they are packed for."""


@dataclass(frozen=True)
class Convolution:
    """A weight, and how it is called, in the order of aten::convolution."""

    weight: torch.Tensor
    how: tuple[Any, ...]
    images: tuple[int, ...]  # their shape in the run of SEEN samples

    @cached_property
    def for_many(self) -> torch.Tensor:
        return self.packed(MANY)

    @property
    def settings(self) -> tuple[Any, ...]:
        """In oneDNN's order."""
        stride, padding, dilation, _, _, groups = self.how
        return padding, stride, dilation, groups

    def packed(self, samples: int) -> torch.Tensor:
        """As this process's number of threads likes it best for so many samples."""
        last = self.weight.contiguous(memory_format=torch.channels_last)
        shape = [max(1, self.images[0] * samples // SEEN), *self.images[1:]]
        return torch.ops.mkldnn._reorder_convolution_weight(last, *self.settings, shape)


@dataclass(frozen=True)
class Prepacked:
    """A model, and the packed weights by the tensors that it calls with."""

    model: ServedModel
    products: Mapping[Key, torch.Tensor]
    convolutions: Mapping[Key, Convolution]
    folded: int  # batch norms
    for_one: dict[Key, torch.Tensor] = field(default_factory=dict)
    """Convolutions again, as several threads like them for a single image."""

    @property
    def weights(self) -> int:
        return len(self.products) + len(self.convolutions)

    def install(self, threads: int) -> None:
        """From now on this process calls oneDNN for these weights, until it ends."""
        if threads > 1:
            self.for_one.update({key: each.packed(1) for key, each in self.convolutions.items()})
        if self.products:
            torch.backends.mha.set_fastpath_enabled(False)
            _replace("addmm", self._addmm)
            _replace("mm", self._mm)
        if self.convolutions:
            _replace("convolution", self._convolution)

    def _addmm(
        self,
        bias: torch.Tensor,
        rows: torch.Tensor,
        weight: torch.Tensor,
        *,
        beta: float = 1,
        alpha: float = 1,
    ) -> torch.Tensor:
        found = self.products.get(_key(weight))
        if found is None or bias.dim() != 1 or beta != 1 or alpha != 1:
            made = rows.new_empty(rows.shape[0], weight.shape[1])
            return torch.addmm(bias, rows, weight, beta=beta, alpha=alpha, out=made)
        return _product(rows, found, bias)

    def _mm(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        found = self.products.get(_key(weight))
        if found is None:
            return torch.mm(rows, weight, out=rows.new_empty(rows.shape[0], weight.shape[1]))
        return _product(rows, found, None)

    def _convolution(
        self, images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *how: Any
    ) -> torch.Tensor:
        key = _key(weight)
        known = self.convolutions.get(key)
        if known is None or known.how != how:
            return torch._convolution(images, weight, bias, *how, False, False, False, False)
        one = self.for_one.get(key) if len(images) == 1 else None
        found = known.for_many if one is None else one
        last = images.contiguous(memory_format=torch.channels_last)
        return torch.ops.mkldnn._convolution_pointwise(last, found, bias, *known.settings, *_ALONE)


_LIBRARY = torch.library.Library("aten", "IMPL")
_ALONE: tuple[str, list[Any], str] = ("none", [], "")
"""No activation is done with the product."""


def _replace(operator: str, ours: Callable[..., torch.Tensor]) -> None:
    with warnings.catch_warnings():  # of the replacement, which is meant
        warnings.simplefilter("ignore", UserWarning)
        _LIBRARY.impl(operator, ours, "CPU")


def _product(rows: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(rows.contiguous(), packed, bias, *_ALONE)


def prepacked(model: ServedModel) -> Prepacked:
    """With no weights where the model has none that can be packed."""
    if not isinstance(model.call, nn.Module) or not torch.backends.mkldnn.is_available():
        return Prepacked(model, {}, {}, 0)
    body, folded = _folded(model.call)
    made = replace(model, call=body)
    uses = _Uses(body)
    with uses, torch.no_grad(), _attention_in_parts():
        made.called(made.repeated(SEEN))
    for each in uses.convolutions.values():
        _ = each.for_many  # now, for all instances to share
    products = {key: _packed_product(weight) for key, weight in uses.products.items()}
    return Prepacked(made, products, uses.convolutions, folded)


@contextmanager
def _attention_in_parts() -> Iterator[None]:
    """Its products can be seen: torch's fast path is one operator."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class _Uses(TorchDispatchMode):  # type: ignore[misc]  # torch has no types of it
    """The model's own weights of float32, as its products and convolutions are called with them."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.products: dict[Key, torch.Tensor] = {}
        self.convolutions: dict[Key, Convolution] = {}
        self._own = {each.untyped_storage().data_ptr() for each in body.parameters()}

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if call in _PRODUCTS and self._is_own(args[_PRODUCTS[call]]):
            weight = args[_PRODUCTS[call]]
            self.products[_key(weight)] = weight
        elif call is torch.ops.aten.convolution.default and self._is_own(args[1]):
            images, weight, _, *how = args
            if weight.dim() == 4 and not how[_TRANSPOSED]:
                found = Convolution(weight.detach(), tuple(how), tuple(images.shape))
                self.convolutions[_key(weight)] = found
        return call(*args, **(kwargs or {}))

    def _is_own(self, weight: torch.Tensor) -> bool:
        ours = weight.untyped_storage().data_ptr() in self._own
        return ours and weight.dtype is torch.float32


_TRANSPOSED = 3  # where aten::convolution says so, behind images, weight and bias
_PRODUCTS = {torch.ops.aten.addmm.default: 2, torch.ops.aten.mm.default: 1}
"""Products of rows and a weight, and which argument the weight is."""


def _key(weight: torch.Tensor) -> Key:
    return weight.data_ptr(), tuple(weight.shape), weight.stride()


def _packed_product(weight: torch.Tensor) -> torch.Tensor:
    """oneDNN multiplies by the transposed."""
    transposed = weight.detach().t().contiguous()
    return torch.ops.mkldnn._reorder_linear_weight(transposed, None)


def _folded(body: nn.Module) -> tuple[nn.Module, int]:
    """The model with batch norms folded into new convolutions, and how many; itself where torch.fx
    cannot follow it, or finds none."""
    try:
        traced = fx.symbolic_trace(body)
    except Exception:  # noqa: BLE001 - control flow of the user's model, of whatever kind
        return body, 0
    pairs = list(_pairs(traced))
    for convolution, norm in pairs:
        fused = nn.utils.fuse_conv_bn_eval(
            traced.get_submodule(str(convolution.target)), traced.get_submodule(str(norm.target))
        )
        traced.add_submodule(str(convolution.target), fused)
        norm.replace_all_uses_with(convolution)
        traced.graph.erase_node(norm)
    if not pairs:
        return body, 0
    traced.recompile()
    return traced.eval(), len(pairs)


def _pairs(traced: fx.GraphModule) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Convolutions whose result goes to a batch norm alone; layers that are called twice stay."""
    layers = dict(traced.named_modules())
    calls = [node for node in traced.graph.nodes if node.op == "call_module"]
    times = Counter(node.target for node in calls)
    for norm in calls:
        before = norm.args[0]
        if (
            _calls_a(layers, norm, nn.BatchNorm2d)
            and _calls_a(layers, before, nn.Conv2d)
            and times[norm.target] == times[before.target] == 1
            and len(before.users) == 1
            and layers[norm.target].running_mean is not None
        ):
            yield before, norm


def _calls_a(layers: Mapping[str, nn.Module], node: Any, kind: type) -> bool:
    """Whether it is a call of a layer of this very kind."""
    called = isinstance(node, fx.Node) and node.op == "call_module"
    return called and type(layers[str(node.target)]) is kind
