"""Borders between the stages of a live job of `torch.distributed.pipelining`.

A stage hands over and takes messages by four methods, which here pack what they hand over and take
room for what comes packed; it is unpacked into torch's own room before the stage computes. Stages
of one process pass on whole tensors, as ever.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.runtime.codecs.codec import kept
from paceline.runtime.exchange import Sent
from paceline.runtime.stages.errors import PipelineError
from paceline.runtime.stages.torch_border import Before, Behind, Border, message_bytes
from paceline.runtime.stages.torch_header import DTYPES, HEADER

Operations = list[Any]  # torch's P2POp
BorderBuffers = tuple[int, Tensor, Tensor]
"""Which message of its direction, where it comes packed, and where it belongs."""


@contextmanager
def bordered(border: Border, optimizer: Any, sent: Sent) -> Iterator[None]:
    """All stages of this process pass on the largest activations alone, until the context is left.
    Every process enters and leaves between the same two steps, which the optimizer tells apart
    where nothing else counts them."""
    pipelining = sys.modules.get("torch.distributed.pipelining")
    if pipelining is None:
        raise PipelineError(
            "the job has no stages of torch.distributed.pipelining, whose messages border_topk "
            "thins; leave it out of the plan. Stages of paceline.runtime.stages are given "
            "PipelineJob(..., borders=(Border(ratio), ...))"
        )
    stage = pipelining.PipelineStage
    sides: WeakKeyDictionary[Any, Side] = WeakKeyDictionary()

    def side(one: Any) -> Side:
        return sides.setdefault(one, Side(border, sent))

    with ExitStack() as stack:
        if optimizer is not None:
            hook = optimizer.register_step_post_hook(lambda *_: sent.stepped())
            stack.callback(hook.remove)
        for name, change in _CHANGES.items():
            stack.enter_context(_method(stage, name, change, side))
        yield


class Side:
    """What one stage packs and unpacks, message by message of a micro-batch."""

    def __init__(self, border: Border, sent: Sent) -> None:
        self._border, self._sent = border, sent
        self._before: dict[int, Before] = {}
        self._behind: dict[int, Behind] = {}
        self._down: dict[int, list[BorderBuffers]] = {}  # by micro-batch
        self._up: dict[int, list[BorderBuffers]] = {}

    def hand_down(self, chunk: int, operations: Operations) -> Operations:
        """Activations, to the next stage."""

        def closed(at: int, made: Tensor) -> Tensor:
            return self._before.setdefault(at, Before(self._border)).close(made, chunk)

        return self._packed(operations, closed)

    def hand_up(self, chunk: int, operations: Operations) -> Operations:
        """Gradients, to the stage before."""
        self._require_each(operations, self._behind)
        return self._packed(operations, lambda at, back: self._behind[at].masked(back, chunk))

    def take_down(self, chunk: int, operations: Operations) -> Operations:
        """Activations, from the stage before."""
        self._down[chunk], made = _with_room(operations, self._room_down)
        for at, _, _ in self._down[chunk]:
            self._behind.setdefault(at, Behind())
        return made

    def take_up(self, chunk: int, operations: Operations) -> Operations:
        """Gradients, from the next stage."""
        self._require_each(operations, self._before)
        self._up[chunk], made = _with_room(operations, self._room_up)
        return made

    def open(self, chunk: int) -> None:
        """Activations, where the stage reads them."""
        for at, message, whole in self._down.pop(chunk, ()):
            _put(whole, self._behind[at].open(message, chunk))

    def restore(self, chunk: int) -> None:
        """Gradients, where the stage reads them."""
        for at, message, whole in self._up.pop(chunk, ()):
            _put(whole, self._before[at].gradient(message, chunk))

    def _packed(self, operations: Operations, pack: Callable[[int, Tensor], Tensor]) -> Operations:
        made = []
        for at, one in enumerate(operations):
            message = pack(at, one.tensor) if _thins(one.tensor) else one.tensor
            size_bytes = message.numel() * message.element_size()
            self._sent.call(size_bytes, size_bytes)
            made.append(_carrying(one, message))
        return made

    def _room_down(self, whole: Tensor) -> Tensor:
        size = message_bytes(whole, self._border.ratio)
        return torch.empty(size, dtype=torch.uint8, device=whole.device)

    def _room_up(self, whole: Tensor) -> Tensor:
        return whole.new_empty(len(whole), kept(whole[0].numel(), self._border.ratio))

    def _require_each(self, operations: Operations, known: dict[int, Any]) -> None:
        thin = sum(_thins(one.tensor) for one in operations)
        if known and thin not in (0, len(known)):
            raise PipelineError(
                f"a stage has {len(known)} tensors thinned by border_topk, and gradients of {thin} "
                "of them; let every tensor between stages have a gradient, or leave it out"
            )


def _thins(tensor: Tensor) -> bool:
    """Whether a message is of samples with numbers, as both of its ends see."""
    return tensor.is_floating_point() and tensor.dtype in DTYPES and 1 < tensor.dim() <= HEADER - 2


def _with_room(
    operations: Operations, room: Callable[[Tensor], Tensor]
) -> tuple[list[BorderBuffers], Operations]:
    rooms, made = [], []
    for at, one in enumerate(operations):
        if _thins(one.tensor):
            message = room(one.tensor.detach())
            rooms.append((at, message, one.tensor))
            made.append(_carrying(one, message))
        else:
            made.append(one)
    return rooms, made


def _carrying(operation: Any, message: Tensor) -> Any:
    if message is operation.tensor:
        return operation
    return dist.P2POp(operation.op, message, operation.peer, operation.group, operation.tag)


def _put(whole: Tensor, values: Tensor) -> None:
    with torch.no_grad():
        whole.copy_(values)


SideOf = Callable[[Any], Side]
Method = Callable[..., Any]


def _sending(hand: Callable[[Side, int, Operations], Operations]) -> Callable[..., Method]:
    """A stage's method that says what is sent or received for a micro-batch."""

    def changed(original: Method, side: SideOf) -> Method:
        def run(stage: Any, chunk: int) -> Operations:
            return hand(side(stage), chunk, original(stage, chunk))

        return run

    return changed


def _computing(prepare: Callable[[Side, int], None]) -> Callable[..., Method]:
    """A stage's method that works on a micro-batch."""

    def changed(original: Method, side: SideOf) -> Method:
        def run(stage: Any, chunk: int, *given: Any, **named: Any) -> Any:
            prepare(side(stage), chunk)
            return original(stage, chunk, *given, **named)

        return run

    return changed


_CHANGES: dict[str, Callable[..., Method]] = {
    "get_fwd_send_ops": _sending(Side.hand_down),
    "get_fwd_recv_ops": _sending(Side.take_down),
    "get_bwd_send_ops": _sending(Side.hand_up),
    "get_bwd_recv_ops": _sending(Side.take_up),
    "forward_one_chunk": _computing(Side.open),
    "backward_one_chunk": _computing(Side.restore),
}


@contextmanager
def _method(kind: type, name: str, change: Callable[..., Method], side: SideOf) -> Iterator[None]:
    """A method of whichever class has it, changed."""
    owner = next(each for each in kind.__mro__ if name in vars(each))
    original = vars(owner)[name]
    setattr(owner, name, change(original, side))
    try:
        yield
    finally:
        setattr(owner, name, original)
