"""Layers of a live tensor-parallel job that are cut by their inputs, with overlapped sums.

`torch.distributed.tensor` holds such a layer's weight as columns on each rank (`Shard(1)`), and
sums its results behind it. Here the layer computes and sums by chunks of rows, and hands on what is
whole already, so that nothing is left to sum.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard

from paceline.weave.backends.chunked_product import Chunking, ChunkTransport
from paceline.weave.backends.peer_link import connect
from paceline.weave.host import HostSettings
from paceline.weave.linear import summed_product
from paceline.weave.rules import WeaveError


@contextmanager
def products_overlapped(model: nn.Module, chunks: int) -> Iterator[None]:
    """Until the context is left. All ranks enter and leave together."""
    layers = [module for module in model.modules() if _is_row_cut(module)]
    if not layers:
        raise WeaveError(
            "the model has no linear layer that torch.distributed.tensor has cut by its inputs "
            "(RowwiseParallel), whose sum could be overlapped; leave overlapped_products out"
        )
    with ExitStack() as stack:
        transports: dict[Any, ChunkTransport] = {}
        for layer in layers:
            mesh = layer.weight.device_mesh
            if mesh not in transports:
                transports[mesh] = stack.enter_context(_transport(mesh.get_group()))
            stack.enter_context(_summing(layer, transports[mesh], Chunking(chunks)))
        yield


def _is_row_cut(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None) if type(module) is nn.Linear else None
    return isinstance(weight, DTensor) and weight.placements == (Shard(1),)


@contextmanager
def _transport(group: Any) -> Iterator[ChunkTransport]:
    link = connect(group, HostSettings.here()) if dist.get_world_size(group) == 2 else None
    try:
        yield ChunkTransport(group, link=link)
    finally:
        if link is not None:
            link.close()


@contextmanager
def _summing(layer: Any, transport: ChunkTransport, cut: Chunking) -> Iterator[None]:
    def forward(given: Any) -> Any:
        local = given.to_local() if isinstance(given, DTensor) else given
        rows = local.reshape(-1, local.shape[-1])
        made = summed_product(rows, layer.weight.to_local(), transport, cut)
        if layer.bias is not None:
            made = made + layer.bias.to_local()
        made = made.view(*local.shape[:-1], made.shape[-1])
        return DTensor.from_local(made, layer.weight.device_mesh, [Replicate()], run_check=False)

    before = vars(layer).get("forward")
    layer.forward = forward
    try:
        yield
    finally:
        del layer.forward
        if before is not None:
            layer.forward = before
