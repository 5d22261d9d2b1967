"""Calls of a recorded job on half of their samples, and those that make weights' gradients with the
sum that several passes need: what cutting a batch into parts costs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from paceline.measure.pairs import Work
from paceline.measure.recorded_calls import OperatorCall, RecordedCalls
from paceline.measure.torch_calls import Runnable, runnable

_IN_FRONT: Mapping[str, tuple[int, ...]] = {
    "addmm": (1,),
    "bmm": (0, 1),
    "mkldnn_convolution": (0,),
    "convolution_backward": (0, 1),
    "native_batch_norm": (0,),
    "native_batch_norm_backward": (0, 1),
    "native_layer_norm": (0,),
    "native_layer_norm_backward": (0, 1, 3, 4),
    "_scaled_dot_product_flash_attention_for_cpu": (0, 1, 2),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (0, 1, 2, 3, 4, 5),
    "clamp_min": (0,),
    "threshold_backward": (0, 1),
    "gelu": (0,),
    "gelu_backward": (0, 1),
}
"""Arguments whose first dimension holds samples."""


def halved(recorded: RecordedCalls) -> Iterator[tuple[OperatorCall, int, Work, Work]]:
    """A call, how often a step makes it, and both ways of making it."""
    for call, count in recorded.counted().items():
        plain = runnable(call)
        if plain is not None and (half := _half(call, plain)) is not None:
            yield call, count, plain, half


def added(recorded: RecordedCalls) -> Iterator[tuple[OperatorCall, int, Work, Work]]:
    """Products of the backward pass that make a weight's gradient, which is then added to another.
    Those of convolutions are small beside their work."""
    for call, count in recorded.counted().items():
        plain = runnable(call) if call.backward else None
        if plain is not None and _makes_weights_gradient(call, plain):
            yield call, count, plain, _adding(plain)


def _half(call: OperatorCall, plain: Runnable) -> Runnable | None:
    name = call.operator.removeprefix("aten::")
    if name == "mm":
        cuts = {0: 1, 1: 0} if _makes_weights_gradient(call, plain) else {0: 0}
    else:
        cuts = dict.fromkeys(_IN_FRONT.get(name, ()), 0)
    given = list(plain.arguments)
    for at, dim in cuts.items():
        if not isinstance(given[at], Tensor) or given[at].shape[dim] < 2:
            return None
        given[at] = given[at].narrow(dim, 0, given[at].shape[dim] // 2)
    return replace(plain, arguments=tuple(given)) if cuts else None


def _makes_weights_gradient(call: OperatorCall, plain: Runnable) -> bool:
    """It multiplies the transpose of a result's gradient, as no other product does."""
    if not call.backward or call.operator != "aten::mm":
        return False
    first: Tensor = plain.arguments[0]
    return not first.is_contiguous() and first.t().is_contiguous()


def _adding(plain: Runnable) -> Callable[[], Tensor]:
    total = torch.zeros_like(plain())
    return lambda: total.add_(plain())
