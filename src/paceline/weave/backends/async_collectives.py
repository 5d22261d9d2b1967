"""Asynchronous collectives: `start_collective` starts one and returns a function to wait for it.

Two ranks with a message queue exchange their parts over it; else gloo carries them. There
ReduceScatter and AllGather go as all-to-all exchanges: gloo would run a reduce-scatter as a full
all-reduce, and gathers equal slices only.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist

from paceline.weave import ops
from paceline.weave.backends.message_queue import MessageQueue
from paceline.weave.backends.torch_collectives import Wire
from paceline.weave.backends.torch_compute import narrow
from paceline.weave.layout import Partial, Reduction, Shape, Sliced

Wait = Callable[[], Any]
"""Waits, and gives this rank's part of the result."""

JOIN: dict[Reduction, Callable[[Any, Any], Any]] = {
    Reduction.SUM: torch.add,
    Reduction.MAX: torch.maximum,
    Reduction.MIN: torch.minimum,
}


def start_collective(
    op: ops.CollectiveOp, wire: Wire, x: Any, queue: MessageQueue | None = None
) -> Wait:
    """Start a collective, over the two ranks' message queue where they have one; x must not change
    before its result was waited for."""
    return _STARTERS[type(op)](wire, x, queue)


def _all_reduce(wire: Wire, x: Any, queue: MessageQueue | None) -> Wait:
    if queue is not None:
        parts = _exchange(wire, [x] * wire.group.size, [x.shape] * wire.group.size, queue)
        return lambda: reduce(_join(wire), parts())
    total = x.clone(memory_format=torch.contiguous_format)
    handle = dist.all_reduce(total, wire.reduction, group=wire.process_group, async_op=True)

    def wait() -> Any:
        handle.wait()
        return total

    return wait


def _reduce_scatter(wire: Wire, x: Any, queue: MessageQueue | None) -> Wait:
    """Every rank's part of this rank's slice, joined in rank order."""
    ranks, shape = range(wire.group.size), wire.after.local_shape(wire.index)
    pieces = [narrow(wire.after, i, x) for i in ranks]
    parts = _exchange(wire, pieces, [shape for _ in ranks], queue)
    return lambda: reduce(_join(wire), parts())


def _all_gather(wire: Wire, x: Any, queue: MessageQueue | None) -> Wait:
    assert isinstance(wire.before.layout, Sliced)
    dim, ranks = wire.before.layout.dim, range(wire.group.size)
    shapes = [wire.before.local_shape(i) for i in ranks]
    parts = _exchange(wire, [x for _ in ranks], shapes, queue)
    return lambda: torch.cat(parts(), dim)


def _join(wire: Wire) -> Callable[[Any, Any], Any]:
    assert isinstance(wire.before.layout, Partial)
    return JOIN[wire.before.layout.op]


def _exchange(
    wire: Wire, pieces: list[Any], shapes: list[Shape], queue: MessageQueue | None
) -> Callable[[], list[Any]]:
    """Piece i to rank i; what arrives from rank i has shape i."""
    return (
        _by_gloo(wire, pieces, shapes) if queue is None else _by_queue(wire, pieces, shapes, queue)
    )


def _by_queue(
    wire: Wire, pieces: list[Any], shapes: list[Shape], queue: MessageQueue
) -> Callable[[], list[Any]]:
    other = 1 - wire.index
    received = pieces[other].new_empty(shapes[other])
    number = queue.post(pieces[other].contiguous(), received)

    def wait() -> list[Any]:
        queue.wait(number)
        return [pieces[wire.index], received][:: 1 if wire.index == 0 else -1]

    return wait


def _by_gloo(wire: Wire, pieces: list[Any], shapes: list[Shape]) -> Callable[[], list[Any]]:
    counts = [torch.Size(s).numel() for s in shapes]
    sent = torch.cat([p.reshape(-1) for p in pieces])
    received = sent.new_empty(sum(counts))
    sizes = [p.numel() for p in pieces]
    group = wire.process_group
    handle = dist.all_to_all_single(received, sent, counts, sizes, group=group, async_op=True)

    def wait() -> list[Any]:
        handle.wait()
        return [part.view(s) for part, s in zip(received.split(counts), shapes)]

    return wait


_STARTERS: dict[type[ops.CollectiveOp], Callable[[Wire, Any, MessageQueue | None], Wait]] = {
    ops.AllReduce: _all_reduce,
    ops.ReduceScatter: _reduce_scatter,
    ops.AllGather: _all_gather,
}
