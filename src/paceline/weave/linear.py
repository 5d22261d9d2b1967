"""`overlapped_linear`: a tensor-parallel linear layer whose all-reduce runs while it computes.

    with overlapped_linear(block.down, Cut.INNER, chunks=8):
        train()

The program behind it is MatMul then AllReduce under `overlap`, run by chunks of rows: over a link
between two ranks, else over the group's own transport. All ranks of the group enter the context
together; leaving it restores the layer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import torch
import torch.distributed as dist

from paceline.weave.backends.chunked_product import Chunking, ChunkTransport, overlapped_product
from paceline.weave.backends.peer_link import connect
from paceline.weave.host import HostSettings
from paceline.weave.rules import WeaveError


class Cut(Enum):
    """How the layer's weight [out, in] is spread over the group."""

    INNER = "inner"  # each rank holds columns of the weight: the output is a sum over ranks
    OUTER = "outer"  # each rank holds rows of the weight: the input's gradient is


@contextmanager
def overlapped_linear(layer: Any, cut: Cut, *, group: Any = None, chunks: int = 8) -> Iterator[Any]:
    """Run this rank's shard of a linear layer with its all-reduce overlapped.

    INNER: forward gives all_reduce(x @ weight.T) + bias, the bias added once. OUTER: forward is
    the local product; backward gives all_reduce(grad @ weight) for the input.
    """
    if not isinstance(layer, torch.nn.Linear):
        raise WeaveError(f"overlapped_linear takes a torch.nn.Linear, got {type(layer).__name__}")
    if chunks < 1:
        raise WeaveError(f"{chunks} chunks; give 1 or more (1 overlaps nothing)")
    if not dist.is_initialized():
        raise WeaveError("torch.distributed is not initialised; call init_process_group first")
    before = layer.__dict__.get("forward")
    link = connect(group, HostSettings.here()) if dist.get_world_size(group) == 2 else None
    transport = ChunkTransport(group, link=link)
    layer.forward = lambda x: _apply(layer, x, cut, (transport, Chunking(chunks)))
    try:
        yield layer
    finally:
        if link is not None:
            link.close()
        if before is None:
            del layer.forward
        else:
            layer.forward = before


def _apply(layer: Any, x: Any, cut: Cut, wire: tuple[ChunkTransport, Chunking]) -> Any:
    rows = x.reshape(-1, x.shape[-1])
    if cut is Cut.INNER:
        out = summed_product(rows, layer.weight, *wire)
        out = out if layer.bias is None else out + layer.bias
    else:
        out = _Outer.apply(rows, layer.weight, layer.bias, *wire)
    return out.view(*x.shape[:-1], out.shape[-1])


def summed_product(rows: Any, weight: Any, transport: ChunkTransport, cut: Chunking) -> Any:
    """all_reduce(rows @ weight.T), overlapped, with gradients."""
    return _Inner.apply(rows, weight, transport, cut)


class _Inner(torch.autograd.Function):
    """all_reduce(x @ weight.T): the sum is every rank's, so gradients stay local."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, transport: ChunkTransport, cut: Chunking) -> Any:
        ctx.save_for_backward(x, weight)
        return overlapped_product(x, weight.t(), transport, cut)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, weight = ctx.saved_tensors
        return grads[0] @ weight, grads[0].t() @ x, None, None


class _Outer(torch.autograd.Function):
    """x @ weight.T of this rank's rows of the weight; the input's gradient is summed."""

    @staticmethod
    def forward(
        ctx: Any, x: Any, weight: Any, bias: Any, transport: ChunkTransport, cut: Chunking
    ) -> Any:
        ctx.save_for_backward(x, weight)
        ctx.wire, ctx.biased = (transport, cut), bias is not None
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The weight's gradient is computed while the last chunks of the input's are summed."""
        (grad,), (x, weight) = grads, ctx.saved_tensors
        grad_weight: list[Any] = []
        grad_x = overlapped_product(
            grad, weight, *ctx.wire, meanwhile=lambda: grad_weight.append(grad.t() @ x)
        )
        return grad_x, grad_weight[0], grad.sum(0) if ctx.biased else None, None, None
