"""The passes of a pair's two layers: with this rank's parts and all rows of its group, or with
whole weights where one rank passes alone."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.pairs.torch_found import LivePair
from paceline.runtime.pairs.torch_rows import Enter, EntryRoom, Leave, Rows
from paceline.runtime.parts.torch_lone import Lone
from paceline.runtime.parts.torch_passes import LonePasses
from paceline.runtime.torch_forward import forward_as


class Whole:
    """Whole weights of the group, asked for once until weights change."""

    def __init__(self, lone: Lone) -> None:
        self._lone = lone
        self._kept: dict[int, tuple[Any, Tensor]] = {}  # with what they were known by

    def of(self, part: Any) -> Tensor:
        mine = part.to_local()
        known_by = self._lone.changes, float(mine.detach().sum())  # scripts may write into it, too
        before, whole = self._kept.get(id(part), (None, None))
        if whole is None or before != known_by:
            whole = self._lone.weight(part)
            self._kept[id(part)] = known_by, whole
        return _Untrained.apply(whole, mine)

    def forget(self) -> None:
        self._kept.clear()


class _Untrained(torch.autograd.Function):  # type: ignore[misc]
    """A weight that one rank asked for alone, which gives no gradient to its part."""

    @staticmethod
    def forward(_: Any, whole: Tensor, part: Tensor) -> Tensor:
        return whole.view_as(whole)

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Any:
        raise ExchangeError(
            "a pass in eval() asks for the weights of a pair, and trains none; train in train(), "
            "or leave tensor_parallel out of the plan"
        )


class _Meant(torch.autograd.Function):  # type: ignore[misc]
    """A part whose gradient, the sum over its group's workers, becomes their mean."""

    @staticmethod
    def forward(context: Any, part: Tensor, share: float) -> Tensor:
        context.share = share
        return part.view_as(part)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        return gradient * context.share, None


@dataclass(frozen=True, eq=False)
class Shared:
    """What all pairs of a model share."""

    rows: Rows
    share: float  # of a part's gradient, in its group's mean
    passes: LonePasses
    whole: Whole

    def alone(self) -> bool:
        """Whether this pass may be one rank's alone."""
        return self.passes.alone if self.passes.within else self.passes.may_be_alone()

    def part(self, tensor: Any) -> Tensor:
        return _Meant.apply(tensor.to_local(), self.share)


@dataclass(eq=False)
class PairPass:
    """A pair under way: between its layers the rows of all the group's workers pass."""

    pair: LivePair
    shared: Shared
    room: EntryRoom = field(default_factory=EntryRoom)
    open: bool = False

    def first(self, inputs: Tensor) -> Tensor:
        weight, bias, shared = self.pair.first.weight, self.pair.first.bias, self.shared
        if shared.alone():
            whole = None if bias is None else shared.whole.of(bias)
            return functional.linear(inputs, shared.whole.of(weight), whole)
        shared.whole.forget()
        self.turn(opens=True)
        rows = Enter.apply(shared.rows, self.room, inputs)
        return functional.linear(
            rows, shared.part(weight), None if bias is None else shared.part(bias)
        )

    def second(self, inputs: Tensor) -> Tensor:
        weight, bias, shared = self.pair.second.weight, self.pair.second.bias, self.shared
        if shared.alone():
            return functional.linear(inputs, shared.whole.of(weight), bias)
        self.turn(opens=False)
        mine: Tensor = Leave.apply(shared.rows, functional.linear(inputs, shared.part(weight)))
        return mine if bias is None else mine + bias.to(mine.dtype)

    def turn(self, *, opens: bool) -> None:
        """The layers take turns; else somebody reads what is between them."""
        if self.open is opens:
            raise ExchangeError(
                "a layer of a pair was used without the other, so that the group's workers cannot "
                "share it; leave tensor_parallel out of the plan"
            )
        self.open = opens


@contextmanager
def in_pairs(model: nn.Module, pairs: list[LivePair], shared: Shared) -> Iterator[None]:
    uses = [PairPass(pair, shared) for pair in pairs]

    def begin(*_: Any) -> None:
        for use in uses:
            use.open = False  # a pass before that an error ended

    def end(*_: Any) -> None:
        for use in uses:
            if use.open:
                use.turn(opens=True)

    with ExitStack() as stack:
        stack.callback(model.register_forward_pre_hook(begin).remove)
        stack.callback(model.register_forward_hook(end).remove)
        for use in uses:
            stack.enter_context(forward_as(use.pair.first, _instead(use.first)))
            stack.enter_context(forward_as(use.pair.second, _instead(use.second)))
            stack.enter_context(_without_fast_path(model, use.pair))
        yield


def _instead(run: Callable[[Tensor], Tensor]) -> Callable[[Any], Callable[[Tensor], Tensor]]:
    def made(_: Any) -> Callable[[Tensor], Tensor]:
        return lambda input: run(input)  # as nn.Linear calls it

    return made


@contextmanager
def _without_fast_path(model: nn.Module, pair: LivePair) -> Iterator[None]:
    """torch's transformer layers, in eval(), read weights past the layers that hold them."""
    holders = [
        module
        for module in model.modules()
        if isinstance(module, nn.TransformerEncoderLayer) and module.linear1 is pair.first
    ]
    before = [module.activation_relu_or_gelu for module in holders]
    for module in holders:
        module.activation_relu_or_gelu = 0
    try:
        yield
    finally:
        for module, kind in zip(holders, before):
            module.activation_relu_or_gelu = kind
