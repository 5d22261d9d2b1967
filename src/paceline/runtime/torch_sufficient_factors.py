"""Linear layers of a live DDP job whose weight gradients every rank makes of all ranks' rows.

Of a layer's two nodes (`torch_two_nodes`) the one that gives the gradient of its input first starts
the gather; the other, behind all input gradients, waits for it and gives the mean gradient, which
goes on as if the reducer had brought it. Weight and bias are out of the reducer meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from paceline.runtime.exchange import ExchangeError, Fits, Sent
from paceline.runtime.run import Run
from paceline.runtime.torch_attributes import instead
from paceline.runtime.torch_forward import Forward, forward_as
from paceline.runtime.torch_reducer import ignoring
from paceline.runtime.torch_row_gathers import FactorPair, Gather, PayloadRoom, RowGathers
from paceline.runtime.torch_sole_sources import Sources, sole_sources
from paceline.runtime.torch_two_nodes import (
    USES,
    as_rows,
    input_gradient,
    leave_room,
    own_linear_layers,
    stand_in,
)


@contextmanager
def with_factors(run: Run, replica: Any, fits: Fits, sent: Sent) -> Iterator[None]:
    """The layers of a replica that fit, until the context is left."""
    _require_all_used(replica)
    layers = _chosen(run, replica, fits)
    gathers, turns = RowGathers(replica.process_group, sent), _Turns(len(layers) * USES)
    leave_room(layers)
    with ExitStack() as stack:
        stack.enter_context(instead(replica, "join", lambda _: _refuse_join))
        stack.enter_context(ignoring(replica, [p for layer in layers for p in layer.parameters()]))
        for layer in layers:
            sources = stack.enter_context(sole_sources(layer))
            stack.enter_context(forward_as(layer, _Apart(layer, _Shared(gathers, sources), turns)))
        yield


def _chosen(run: Run, replica: Any, fits: Fits) -> list[nn.Linear]:
    members = replica.process_group.size()
    found = [
        layer
        for layer in own_linear_layers(replica.module)
        if fits(_name(run, layer), tuple(layer.weight.shape), members)
    ]
    if not found:
        raise ExchangeError(
            f"no plain linear layer of this model that trains a weight of its own would send less "
            f"on {members} workers by these settings; give fewer rows, name other layers, or "
            "leave sufficient_factors out of the plan"
        )
    return found


def _name(run: Run, layer: nn.Linear) -> str:
    """As a recording calls the layer of that weight."""
    return run.names.get(id(layer.weight), "").rpartition(".")[0]


def _require_all_used(replica: Any) -> None:
    if replica.find_unused_parameters:
        raise ExchangeError(
            "this job lets each worker leave out layers (find_unused_parameters), and all workers "
            "gather for the same layers; leave sufficient_factors out of the plan"
        )


def _refuse_join(*_: Any, **__: Any) -> NoReturn:
    raise ExchangeError(
        "all workers gather rows in every step, and this job lets some end early "
        "(DistributedDataParallel.join); leave sufficient_factors out"
    )


class _Turns:
    """Numbers of second nodes: of layers that are used later the gather begins, and ends, first."""

    def __init__(self, count: int) -> None:
        self._count, self._used = count, 0

    def next(self) -> int:
        turn = self._used % self._count
        self._used += 1
        return turn


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all uses of a layer share."""

    gathers: RowGathers
    sources: Sources
    room: PayloadRoom = field(default_factory=PayloadRoom)


class _Apart:
    """A layer's forward pass with two nodes."""

    def __init__(self, layer: nn.Linear, shared: _Shared, turns: _Turns) -> None:
        self._layer, self._shared, self._turns = layer, shared, turns

    def __call__(self, forward: Forward) -> Callable[[Tensor], Tensor]:
        def run(inputs: Tensor) -> Tensor:
            if not torch.is_grad_enabled() or not self._trains():
                result: Tensor = forward(inputs)
                return result
            kind = inputs.device.type
            if not torch.is_autocast_enabled(kind):
                return self._product(inputs)
            dtype = torch.get_autocast_dtype(kind)
            with torch.autocast(kind, enabled=False):
                return self._product(inputs.to(dtype))

        return run

    def _trains(self) -> bool:
        return any(parameter.requires_grad for parameter in self._layer.parameters())

    def _product(self, inputs: Tensor) -> Tensor:
        weight, bias = self._layer.weight, self._layer.bias
        use = _Use(self._shared)
        later: Tensor = _Weight.apply(use, inputs.detach(), weight, bias)
        later.grad_fn._set_sequence_nr(self._turns.next())
        fixed = None if bias is None else bias.detach().to(inputs.dtype)
        result: Tensor = _Input.apply(use, inputs, weight.detach().to(inputs.dtype), fixed, later)
        return result


class _Use:
    """What the two nodes of one use of a layer share."""

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._started: list[Gather] = []  # one for each time that the graph is gone through

    def start(self, inputs: Tensor, gradient: Tensor) -> None:
        self._started.append(
            self._shared.gathers.start(self._shared.room, FactorPair(inputs, gradient))
        )

    def finish(self) -> FactorPair:
        return self._shared.gathers.finish(self._started.pop(0))

    def give(self, gradients: Sequence[Tensor | None]) -> None:
        """What weight and bias are then given."""
        self._shared.sources.told(gradients)


class _Weight(torch.autograd.Function):  # type: ignore[misc]
    """The mean gradient of weight and bias, once the gradient of the result is gathered."""

    @staticmethod
    def forward(
        context: Any, use: _Use, inputs: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        context.use, context.dtype = use, weight.dtype
        return stand_in(inputs, len(weight))

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, _: Tensor) -> Any:
        rows = context.use.finish()
        weight = rows.gradient.t() @ rows.inputs if context.needs_input_grad[2] else None
        bias = rows.gradient.sum(0) if context.needs_input_grad[3] else None
        given = [g if g is None else g.to(context.dtype) for g in (weight, bias)]
        context.use.give(given)
        return None, None, *given


class _Input(torch.autograd.Function):  # type: ignore[misc]
    """The product; the gradient of its input, behind the start of the gather."""

    @staticmethod
    def forward(
        context: Any, use: _Use, inputs: Tensor, weight: Tensor, bias: Tensor | None, later: Tensor
    ) -> Tensor:
        context.save_for_backward(inputs, weight)
        context.use = use
        return functional.linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> Any:
        inputs, weight = context.saved_tensors
        rows = as_rows(gradient)
        if torch._C._will_engine_execute_node(context.next_functions[-1][0]):
            context.use.start(as_rows(inputs), rows)
        handed = gradient.new_empty(()).expand(gradient.shape)
        needed = context.needs_input_grad[1]
        found = input_gradient(rows, weight, inputs.shape) if needed else None
        return None, found, None, None, handed
