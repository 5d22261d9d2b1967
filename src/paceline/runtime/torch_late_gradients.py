"""Linear layers of a live job whose weight gradients wait until all input gradients are made.

Of a layer's two nodes (`torch_two_nodes`) the one that gives the gradient of its input hands that
of the result on to the other.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from paceline.errors import PacelineError
from paceline.runtime.late_order import late_order
from paceline.runtime.run import Run
from paceline.runtime.torch_forward import Forward, forward_as
from paceline.runtime.torch_two_nodes import (
    USES,
    as_rows,
    input_gradient,
    leave_room,
    own_linear_layers,
    stand_in,
    trains,
)


class LateError(PacelineError):
    """A job whose weight gradients cannot be made later."""


@contextmanager
def gradients_late(run: Run, first: int, order: str) -> Iterator[None]:
    """Until the context is left."""
    _require_replicas(run)
    layers = own_linear_layers(run.model)
    sizes = [layer.weight.numel() * layer.weight.element_size() for layer in layers]
    held = [layers[layer] for layer in late_order(sizes, first, order)]
    if not held:
        raise LateError(
            "no plain linear layer of this model trains a weight of its own, so no gradient can be "
            "made later; leave late_gradients out of the plan"
        )
    leave_room(held)
    with ExitStack() as stack:
        for turn, layer in enumerate(reversed(held)):
            stack.enter_context(forward_as(layer, _Apart(layer, turn * USES)))
        yield


def _require_replicas(run: Run) -> None:
    if not run.replicas:
        raise LateError(
            "this job has no DistributedDataParallel module: FSDP2 reduces a layer's gradients "
            "once its input gradient is made, and a job of one worker exchanges none; leave "
            "late_gradients out of the plan"
        )


class _Apart:
    """A layer's forward pass with two nodes."""

    def __init__(self, layer: nn.Linear, number: int) -> None:
        self._layer, self._number, self._uses = layer, number, 0

    def __call__(self, forward: Forward) -> Callable[[Tensor], Tensor]:
        def run(inputs: Tensor) -> Tensor:
            if not torch.is_grad_enabled() or not trains(self._layer) or inputs.dim() < 2:
                result: Tensor = forward(inputs)
                return result
            kind = inputs.device.type
            given = (inputs, self._layer.weight, self._layer.bias)
            if not torch.is_autocast_enabled(kind):
                return self._product(*given)
            dtype = torch.get_autocast_dtype(kind)
            with torch.autocast(kind, enabled=False):
                return self._product(*(g if g is None else g.to(dtype) for g in given))

        return run

    def _product(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        later: Tensor = _Weight.apply(inputs.detach(), weight, bias)
        later.grad_fn._set_sequence_nr(self._number + self._uses % USES)
        self._uses += 1
        fixed = None if bias is None else bias.detach()
        result: Tensor = _Input.apply(inputs, weight.detach(), fixed, later)
        return result


class _Weight(torch.autograd.Function):  # type: ignore[misc]
    """The gradient of weight and bias from that of the result, which comes as that of a stand-in
    of its shape."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(inputs)
        return stand_in(inputs, len(weight))

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> Any:
        (inputs,) = context.saved_tensors
        rows = as_rows(gradient)
        bias = _bias(inputs, gradient, rows) if context.needs_input_grad[2] else None
        return None, rows.t() @ as_rows(inputs), bias


def _bias(inputs: Tensor, gradient: Tensor, rows: Tensor) -> Tensor:
    """Summed as torch does, whose product adds the bias where it takes the inputs as rows; else
    another operator adds it."""
    if inputs.is_contiguous() and inputs.dim() == 3:
        return rows.sum(0)
    return gradient.sum(tuple(range(gradient.dim() - 1)))


class _Input(torch.autograd.Function):  # type: ignore[misc]
    """The product; the gradient of its input, and that of the result handed on."""

    @staticmethod
    def forward(
        context: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, later: Tensor
    ) -> Tensor:
        context.save_for_backward(weight)
        context.shape = inputs.shape
        return functional.linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> Any:
        (weight,) = context.saved_tensors
        if not context.needs_input_grad[0]:
            return None, None, None, gradient
        found = input_gradient(as_rows(gradient), weight, context.shape)
        return found, None, None, gradient
