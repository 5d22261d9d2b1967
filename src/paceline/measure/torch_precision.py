"""Recorded calls as torch's autocast would make them: which run in bfloat16, and what is cast.

A profile does not say which tensor goes into which call, so types are followed by sizes: an input
has the type in which a tensor of as many elements was last made. The other side of an addition is
taken to be what an earlier element-wise operator or normalisation made, as in residual networks.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import torch

from paceline.cost.operators import OPERATORS, OperatorClass
from paceline.measure.recorded_calls import OperatorCall
from paceline.measure.torch_calls import Runnable

LOWERED = (OperatorClass.PRODUCT, OperatorClass.CONVOLUTION, OperatorClass.ATTENTION)
KEPT = ("aten::_log_softmax", "aten::_log_softmax_backward_data")  # losses stay in float32
_WEIGHTS = {"aten::addmm": (0, 2), "aten::mm": (1,), "aten::mkldnn_convolution": (1, 2)}
_FORWARD_OF = {
    "aten::threshold_backward": "aten::clamp_min",
    "aten::gelu_backward": "aten::gelu",
    "aten::silu_backward": "aten::silu",
    "aten::tanh_backward": "aten::tanh",
    "aten::sigmoid_backward": "aten::sigmoid",
    "aten::_softmax_backward_data": "aten::_softmax",
    "aten::native_batch_norm_backward": "aten::native_batch_norm",
    "aten::native_layer_norm_backward": "aten::native_layer_norm",
}
_ADDITIONS = ("aten::add", "aten::sub", "aten::mul")
_SMALL = 4_096  # elements: statistics and weights of normalisation, which are never cast


@dataclass(frozen=True, eq=False)
class Lowered:
    """A call under autocast: some inputs are cast first, and gradients of weights behind it."""

    call: Runnable
    cast: frozenset[int] = frozenset()  # arguments that come in float32 and are cast
    restored: frozenset[int] = frozenset()  # results that are cast back

    def __call__(self) -> Any:
        made = [
            v.to(torch.bfloat16) if i in self.cast else v for i, v in enumerate(self.call.arguments)
        ]
        results = Runnable(self.call.operator, tuple(made))()
        if not self.restored:
            return results
        several = results if isinstance(results, tuple) else (results,)
        return [v.float() if i in self.restored else v for i, v in enumerate(several)]


@dataclass
class Autocast:
    """Follows the types of a step's tensors from call to call."""

    _made: dict[int, list[tuple[OperatorClass, bool]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _forward: dict[tuple[str, int], bool] = field(default_factory=dict)
    _weights: set[tuple[int, ...]] = field(default_factory=set)

    def lowered(self, call: OperatorCall, plain: Runnable) -> Lowered:
        """The next call of the step under autocast."""
        kind = OPERATORS[call.operator]
        floats = [i for i, v in enumerate(plain.arguments) if _is_float(v)]
        if kind in LOWERED:
            made = self._product(call, plain, floats)
        else:
            made = self._other(call, plain, floats)
        low = kind in LOWERED or any(
            _is_float(v) and v.dtype is torch.bfloat16 and v.numel() >= _SMALL
            for v in made.call.arguments
        )
        for size in _result_sizes(plain):
            self._made[size].append((kind, low))
        return made

    def _product(self, call: OperatorCall, plain: Runnable, floats: list[int]) -> Lowered:
        floats = [i for i in floats if _takes_part(call, i)]
        values = (v.to(torch.bfloat16) if i in floats else v for i, v in enumerate(plain.arguments))
        low = Runnable(plain.operator, tuple(values))
        if call.backward:
            return Lowered(low, restored=self._gradients(plain))
        weights = _WEIGHTS.get(call.operator, ())
        for i in floats:
            if i in weights:
                self._weights.add(tuple(sorted(call.dims[i])))
        cast = frozenset(i for i in floats if i in weights or not self._last(plain.arguments[i]))
        mixed = (plain.arguments[i] if i in cast else v for i, v in enumerate(low.arguments))
        return Lowered(Runnable(low.operator, tuple(mixed)), cast)

    def _gradients(self, plain: Runnable) -> frozenset[int]:
        """Results that are gradients of weights, by their sizes."""
        found = _results(plain)
        return frozenset(i for i, v in enumerate(found) if tuple(sorted(v)) in self._weights)

    def _other(self, call: OperatorCall, plain: Runnable, floats: list[int]) -> Lowered:
        big = [i for i in floats if plain.arguments[i].numel() >= _SMALL]
        if call.operator in KEPT or not big:
            return Lowered(plain)
        key = (call.operator, plain.arguments[big[0]].numel())
        if call.backward:
            low = self._forward.get((_FORWARD_OF.get(call.operator, call.operator), key[1]), False)
            chosen = set(big) if low else set()
        else:
            chosen = {i for i in big if self._last(plain.arguments[i])}
            if call.operator in _ADDITIONS and len(big) == 2 and not self._stream(key[1]):
                chosen.discard(big[0])
            self._forward[key] = bool(chosen)
        values = (v.to(torch.bfloat16) if i in chosen else v for i, v in enumerate(plain.arguments))
        return Lowered(Runnable(plain.operator, tuple(values)))

    def _last(self, tensor: torch.Tensor) -> bool:
        """Whether the last tensor of that size was made in bfloat16."""
        made = self._made[tensor.numel()]
        return bool(made) and made[-1][1]

    def _stream(self, size: int) -> bool:
        """Whether what an addition adds to is in bfloat16."""
        light = (OperatorClass.POINTWISE, OperatorClass.NORMALISATION)
        before = [low for kind, low in self._made[size][:-1] if kind in light]
        return bool(before) and before[-1]


def _takes_part(call: OperatorCall, argument: int) -> bool:
    """Attention keeps its sums of exponentials, which have a dimension less, in float32."""
    attends = OPERATORS[call.operator] is OperatorClass.ATTENTION
    return not attends or len(call.dims[argument]) == len(call.dims[0])


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.bfloat16)


def _results(call: Runnable) -> list[tuple[int, ...]]:
    """Sizes of the results. The call is made: not every operator tells them without data."""
    results = call()
    several = results if isinstance(results, tuple) else (results,)
    return [tuple(v.shape) if isinstance(v, torch.Tensor) else () for v in several]


def _result_sizes(call: Runnable) -> list[int]:
    """Elements of the large results."""
    sizes = [torch.Size(dims).numel() for dims in _results(call)]
    return [size for size in sizes if size >= _SMALL]
