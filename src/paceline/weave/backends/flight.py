"""Asynchronous collectives: `depart` starts one and returns the function that waits for it.

ReduceScatter and AllGather go as all-to-all exchanges: gloo would run a reduce-scatter as a full
all-reduce, and gathers equal slices only.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist

from paceline.weave import ops
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


def depart(op: ops.CollectiveOp, wire: Wire, x: Any) -> Arrive:
    """Start a collective; x must not change before it has arrived."""
    return _DEPART[type(op)](wire, x)


def _all_reduce(wire: Wire, x: Any) -> Arrive:
    total = x.clone(memory_format=torch.contiguous_format)
    handle = dist.all_reduce(total, wire.reduction, group=wire.process_group, async_op=True)

    def arrive() -> Any:
        handle.wait()
        return total

    return arrive


def _reduce_scatter(wire: Wire, x: Any) -> Arrive:
    """Every rank's part of this rank's slice, joined in rank order."""
    assert isinstance(wire.before.layout, Partial)
    join, ranks = JOIN[wire.before.layout.op], range(wire.group.size)
    shape = wire.after.local_shape(wire.index)
    arrive = _exchange(wire, [narrow(wire.after, i, x) for i in ranks], [shape for _ in ranks])
    return lambda: reduce(join, arrive())


def _all_gather(wire: Wire, x: Any) -> Arrive:
    assert isinstance(wire.before.layout, Sliced)
    dim, ranks = wire.before.layout.dim, range(wire.group.size)
    shapes = [wire.before.local_shape(i) for i in ranks]
    arrive = _exchange(wire, [x for _ in ranks], shapes)
    return lambda: torch.cat(arrive(), dim)


def _exchange(wire: Wire, pieces: list[Any], shapes: list[Shape]) -> Callable[[], list[Any]]:
    """Piece i to rank i; what arrives from rank i has shape i."""
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


_DEPART: dict[type[ops.CollectiveOp], Callable[[Wire, Any], Arrive]] = {
    ops.AllReduce: _all_reduce,
    ops.ReduceScatter: _reduce_scatter,
    ops.AllGather: _all_gather,
}
