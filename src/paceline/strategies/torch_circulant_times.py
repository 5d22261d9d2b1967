"""Layers of a recorded job as they are, beside the same ones of circulant blocks: both passes."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from paceline.graph.variants import Variant
from paceline.measure.pairs import Work
from paceline.measure.recorded_calls import RecordedCalls
from paceline.measure.torch_calls import Runnable, runnable
from paceline.measure.torch_ratios import Changed, Changes
from paceline.runtime.layers.circulant import BLOCK
from paceline.runtime.layers.torch_circulant_kernels import nearest
from paceline.runtime.layers.torch_structured import StructuredConv2d, StructuredLinear


def circulant(recorded: RecordedCalls) -> Changed:
    """A layer's pass, called by the layer's class, how often a step makes it, and both ways of
    making it. Layers whose sizes do not divide stay as they are, and are left out."""
    for call, count in recorded.counted().items():
        plain = None if call.backward else runnable(call)
        found = None if plain is None else _layer(call.operator, plain)
        if found is None:
            continue
        layer, inputs = found
        make = StructuredConv2d if isinstance(layer, nn.Conv2d) else StructuredLinear
        new = make(layer, lambda weight: nearest(weight, BLOCK))
        name = type(layer).__name__
        with torch.enable_grad():
            backs = _back(layer, inputs), _back(new, inputs)
        yield replace(call, operator=name), count, _pass(layer, inputs), _pass(new, inputs)
        yield replace(call, operator=f"{name} backward"), count, *backs


def _pass(layer: nn.Module, inputs: torch.Tensor) -> Work:
    return lambda: layer(inputs)


def _back(layer: nn.Module, inputs: torch.Tensor) -> Work:
    """The gradients of the inputs and of all that the layer trains."""
    given = inputs.detach().requires_grad_()
    made = layer(given)
    gradient, wanted = torch.ones_like(made), [given, *layer.parameters()]
    return lambda: torch.autograd.grad(made, wanted, gradient, retain_graph=True)


def _layer(operator: str, plain: Runnable) -> tuple[nn.Module, torch.Tensor] | None:
    """The layer that the call is the forward pass of, and its inputs."""
    given = plain.arguments
    if operator == "aten::addmm":
        bias, inputs, weight, *_ = given
        return _linear(inputs, weight.t(), bias)
    if operator == "aten::mm":
        inputs, weight = given
        return _linear(inputs, weight.t(), None)
    if operator == "aten::mkldnn_convolution":
        inputs, weight, bias, padding, stride, dilation, groups = given
        return _convolution(inputs, weight, bias, (stride, padding, dilation), groups)
    return None


def _linear(
    inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> tuple[nn.Module, torch.Tensor] | None:
    if not _divides(weight) or (bias is not None and bias.dim() != 1):
        return None
    layer = nn.Linear(*reversed(weight.shape), bias=bias is not None)
    return layer, inputs


def _convolution(
    inputs: torch.Tensor, weight: torch.Tensor, bias: Any, how: tuple[Any, Any, Any], groups: int
) -> tuple[nn.Module, torch.Tensor] | None:
    if groups != 1 or weight.dim() != 4 or not _divides(weight):
        return None
    out, channels, *window = weight.shape
    layer = nn.Conv2d(channels, out, tuple(window), *map(tuple, how), bias=bias is not None)
    return layer, inputs


def _divides(weight: torch.Tensor) -> bool:
    rows, columns, *_ = weight.shape
    return weight.dtype is torch.float32 and rows % BLOCK == 0 and columns % BLOCK == 0


LAYER_CHANGES: Changes = {Variant.CIRCULANT: circulant}
"""What a measurement of a job's operators takes in beside the variants that its room knows."""
