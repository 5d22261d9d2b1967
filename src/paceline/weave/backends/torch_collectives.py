"""Collectives of the language on torch.distributed process groups, uneven slices included.

Slices are sent padded to the largest one; the padding is cut off on arrival.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from paceline.weave import ops
from paceline.weave.backends.torch_compute import TORCH, narrow
from paceline.weave.layout import Group, Partial, Reduction, Sliced, TensorType
from paceline.weave.numbers import identity_of

REDUCTIONS = {
    Reduction.SUM: dist.ReduceOp.SUM,
    Reduction.MAX: dist.ReduceOp.MAX,
    Reduction.MIN: dist.ReduceOp.MIN,
}


@dataclass(frozen=True)
class Wire:
    """One collective on one rank: types of operand and result, the process group, this index."""

    before: TensorType
    after: TensorType
    process_group: Any
    index: int

    @property
    def group(self) -> Group:
        assert self.before.group is not None
        return self.before.group

    @property
    def reduction(self) -> Any:
        assert isinstance(self.before.layout, Partial)
        return REDUCTIONS[self.before.layout.op]


def device() -> str:
    """Where buffers live: NCCL moves GPU memory only, gloo the host's."""
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


def communicate(op: ops.CollectiveOp, wire: Wire, x: Any) -> Any:
    """This rank's part of a collective's result; x is left as it is. Send is the executor's."""
    return _RULES[type(op)](op, wire, x)


def _all_reduce(op: ops.AllReduce, wire: Wire, x: Any) -> Any:
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, wire.reduction, group=wire.process_group)
    return total


def _reduce_scatter(op: ops.ReduceScatter, wire: Wire, x: Any) -> Any:
    rows = x.movedim(op.dim, 0)
    step = -(-rows.shape[0] // wire.group.size)
    padded = rows.new_zeros((step * wire.group.size, *rows.shape[1:]))
    padded[: rows.shape[0]] = rows
    part = rows.new_empty((step, *rows.shape[1:]))
    dist.reduce_scatter_tensor(part, padded, wire.reduction, group=wire.process_group)
    mine = wire.after.local_shape(wire.index)[op.dim]
    return part[:mine].movedim(0, op.dim)


def _all_gather(op: ops.AllGather, wire: Wire, x: Any) -> Any:
    assert isinstance(wire.before.layout, Sliced)
    dim = wire.before.layout.dim
    rows = x.movedim(dim, 0)
    step = -(-wire.before.shape[dim] // wire.group.size)
    padded = rows.new_zeros((step, *rows.shape[1:]))
    padded[: rows.shape[0]] = rows
    whole = rows.new_empty((step * wire.group.size, *rows.shape[1:]))
    dist.all_gather_into_tensor(whole, padded, group=wire.process_group)
    return whole[: wire.before.shape[dim]].movedim(0, dim)


def _reduce_to(op: ops.ReduceTo, wire: Wire, x: Any) -> Any:
    total = x.clone(memory_format=torch.contiguous_format)
    root = wire.group.ranks[op.root]
    dist.reduce(total, root, wire.reduction, group=wire.process_group)
    if wire.index == op.root:
        return total
    assert isinstance(wire.before.layout, Partial)
    empty = identity_of(wire.before.layout.op, total.is_floating_point())
    return torch.full_like(total, empty)


def _broadcast(op: ops.Broadcast, wire: Wire, x: Any) -> Any:
    value = x.clone(memory_format=torch.contiguous_format)
    dist.broadcast(value, wire.group.ranks[op.root], group=wire.process_group)
    return value


def _all_to_all(op: ops.AllToAll, wire: Wire, x: Any) -> Any:
    """Each rank cuts its part along the new dim and sends piece i to rank i."""
    assert isinstance(wire.before.layout, Sliced)
    dim, size = wire.before.layout.dim, wire.group.size
    pieces = [narrow(wire.after, i, x).contiguous() for i in range(size)]
    shapes = [_piece(wire, i) for i in range(size)]
    counts = [torch.Size(s).numel() for s in shapes]
    received = torch.empty(sum(counts), dtype=TORCH[wire.before.dtype], device=x.device)
    dist.all_to_all_single(
        received,
        torch.cat([p.reshape(-1) for p in pieces]),
        counts,
        [p.numel() for p in pieces],
        group=wire.process_group,
    )
    parts = [r.view(s) for r, s in zip(received.split(counts), shapes)]
    return torch.cat(parts, dim)


def _piece(wire: Wire, sender: int) -> tuple[int, ...]:
    """Shape of what rank `sender` hands to this one."""
    assert isinstance(wire.before.layout, Sliced)
    old, mine = wire.before.local_shape(sender), wire.after.local_shape(wire.index)
    dim = wire.before.layout.dim
    return (*mine[:dim], old[dim], *mine[dim + 1 :])


_RULES: dict[type[ops.CollectiveOp], Callable[..., Any]] = {
    ops.AllReduce: _all_reduce,
    ops.ReduceScatter: _reduce_scatter,
    ops.AllGather: _all_gather,
    ops.ReduceTo: _reduce_to,
    ops.Broadcast: _broadcast,
    ops.AllToAll: _all_to_all,
}
