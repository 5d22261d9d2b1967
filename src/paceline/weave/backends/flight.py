"""Asynchronous collectives: `depart` starts one and returns the function that waits for it.

Two ranks with a cable exchange their parts over it; else gloo carries them. There ReduceScatter and
AllGather go as all-to-all exchanges: gloo would run a reduce-scatter as a full all-reduce, and
gathers equal slices only.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist

from paceline.weave import ops
from paceline.weave.backends.mail import Mail
from paceline.weave.backends.torch_collectives import Wire
from paceline.weave.backends.torch_compute import narrow
from paceline.weave.layout import Partial, Reduction, Shape, Sliced

Arrive = Callable[[], Any]
"""Waits, and gives this rank's part of the result."""

JOIN: dict[Reduction, Callable[[Any, Any], Any]] = {
    Reduction.SUM: torch.add,
    Reduction.MAX: torch.maximum,
    Reduction.MIN: torch.minimum,
}


def depart(op: ops.CollectiveOp, wire: Wire, x: Any, mail: Mail | None = None) -> Arrive:
    """Start a collective, over the two ranks' mail where they have one; x must not change before
    it has arrived."""
    return _DEPART[type(op)](wire, x, mail)


def _all_reduce(wire: Wire, x: Any, mail: Mail | None) -> Arrive:
    if mail is not None:
        parts = _exchange(wire, [x] * wire.group.size, [x.shape] * wire.group.size, mail)
        return lambda: reduce(_join(wire), parts())
    total = x.clone(memory_format=torch.contiguous_format)
    handle = dist.all_reduce(total, wire.reduction, group=wire.process_group, async_op=True)

    def arrive() -> Any:
        handle.wait()
        return total

    return arrive


def _reduce_scatter(wire: Wire, x: Any, mail: Mail | None) -> Arrive:
    """Every rank's part of this rank's slice, joined in rank order."""
    ranks, shape = range(wire.group.size), wire.after.local_shape(wire.index)
    pieces = [narrow(wire.after, i, x) for i in ranks]
    parts = _exchange(wire, pieces, [shape for _ in ranks], mail)
    return lambda: reduce(_join(wire), parts())


def _all_gather(wire: Wire, x: Any, mail: Mail | None) -> Arrive:
    assert isinstance(wire.before.layout, Sliced)
    dim, ranks = wire.before.layout.dim, range(wire.group.size)
    shapes = [wire.before.local_shape(i) for i in ranks]
    parts = _exchange(wire, [x for _ in ranks], shapes, mail)
    return lambda: torch.cat(parts(), dim)


def _join(wire: Wire) -> Callable[[Any, Any], Any]:
    assert isinstance(wire.before.layout, Partial)
    return JOIN[wire.before.layout.op]


def _exchange(
    wire: Wire, pieces: list[Any], shapes: list[Shape], mail: Mail | None
) -> Callable[[], list[Any]]:
    """Piece i to rank i; what arrives from rank i has shape i."""
    return _by_gloo(wire, pieces, shapes) if mail is None else _by_mail(wire, pieces, shapes, mail)


def _by_mail(
    wire: Wire, pieces: list[Any], shapes: list[Shape], mail: Mail
) -> Callable[[], list[Any]]:
    other = 1 - wire.index
    coming = pieces[other].new_empty(shapes[other])
    number = mail.post(pieces[other].contiguous(), coming)

    def arrive() -> list[Any]:
        mail.wait(number)
        return [pieces[wire.index], coming][:: 1 if wire.index == 0 else -1]

    return arrive


def _by_gloo(wire: Wire, pieces: list[Any], shapes: list[Shape]) -> Callable[[], list[Any]]:
    counts = [torch.Size(s).numel() for s in shapes]
    going = torch.cat([p.reshape(-1) for p in pieces])
    coming = going.new_empty(sum(counts))
    sizes = [p.numel() for p in pieces]
    group = wire.process_group
    handle = dist.all_to_all_single(coming, going, counts, sizes, group=group, async_op=True)

    def arrive() -> list[Any]:
        handle.wait()
        return [part.view(s) for part, s in zip(coming.split(counts), shapes)]

    return arrive


_DEPART: dict[type[ops.CollectiveOp], Callable[[Wire, Any, Mail | None], Arrive]] = {
    ops.AllReduce: _all_reduce,
    ops.ReduceScatter: _reduce_scatter,
    ops.AllGather: _all_gather,
}
