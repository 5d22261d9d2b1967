"""A recorded job's products of matrices three at a time, as three and as one of three times the
width: what merging layers that read one input brings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from paceline.measure.pairs import Work
from paceline.measure.recorded_calls import OperatorCall, RecordedCalls
from paceline.measure.torch_calls import runnable

_TIMES = 3
Changed = Iterator[tuple[OperatorCall, int, Work, Work]]


def merged(recorded: RecordedCalls) -> Changed:
    """A call, how often a step makes it, three of them, and one in their place."""
    for call, count in recorded.counted().items():
        make = _WAYS.get(call.operator)
        plain = runnable(call) if make is not None else None
        if make is not None and plain is not None:
            yield call, count, *make(*plain.arguments)


def _forward(bias: Any, inputs: Any, weight: Any, *_: Any) -> tuple[Work, Work]:
    """Of a layer with a bias; the weight is transposed."""
    many = torch.cat([weight.t()] * _TIMES).t()
    biases = torch.cat([bias] * _TIMES, -1) if bias.dim() == 1 else bias.repeat(1, _TIMES)
    return (
        lambda: [torch.addmm(bias, inputs, weight) for _ in range(_TIMES)],
        lambda: torch.addmm(biases, inputs, many),
    )


def _product(one: Any, other: Any) -> tuple[Work, Work]:
    """A weight's gradient where the first is transposed, a layer without bias where the second is,
    else an input's gradient."""
    if _transposed(one):
        return _Weights(one, other).ways()
    if _transposed(other):
        many = torch.cat([other.t()] * _TIMES).t()
        return lambda: [one @ other for _ in range(_TIMES)], lambda: one @ many
    return _Inputs(one, other).ways()


@dataclass(frozen=True, eq=False)
class _Weights:
    gradient: Any
    inputs: Any

    def ways(self) -> tuple[Work, Work]:
        many = torch.cat([self.gradient.t()] * _TIMES, 1).t()
        return self.apart, lambda: many @ self.inputs

    def apart(self) -> Any:
        return [self.gradient @ self.inputs for _ in range(_TIMES)]


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Three gradients add up; one product adds them by itself, of gradients side by side."""

    gradient: Any
    weight: Any

    def ways(self) -> tuple[Work, Work]:
        many = torch.cat([self.weight] * _TIMES)
        return self.apart, lambda: torch.cat([self.gradient] * _TIMES, 1) @ many

    def apart(self) -> Any:
        total = self.gradient @ self.weight
        for _ in range(_TIMES - 1):
            total.add_(self.gradient @ self.weight)
        return total


def _transposed(matrix: Any) -> bool:
    return bool(matrix.stride(0) == 1 and matrix.stride(1) != 1)


_WAYS: dict[str, Callable[..., tuple[Work, Work]]] = {
    "aten::addmm": _forward,
    "aten::mm": _product,
}
