"""Which modules of a live job FSDP2 wraps, and why it cannot."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import nn

from paceline.graph.fully_sharded import blocks_of
from paceline.record.torch_facts import clean_path
from paceline.runtime.exchange import ExchangeError
from paceline.runtime.run import Run
from paceline.runtime.torch_optimizers import require_known, updates_a_part


@dataclass(frozen=True, eq=False)
class Plain:
    """A job under DDP, as it is before its weights are cut."""

    replica: Any  # its DistributedDataParallel module
    optimizer: Any
    tensors: Sequence[Any]  # what it trains, in the optimizer's order
    blocks: Sequence[Any]  # modules, each wrapped by itself
    places: Mapping[tuple[int, str], Any]  # by `id` of a module and name: the tensor there

    @property
    def model(self) -> Any:
        return self.replica.module

    @property
    def fixed(self) -> set[Any]:
        """Tensors that are not trained, and stay whole."""
        trained = set(map(id, self.tensors))
        return {p for p in self.model.parameters() if id(p) not in trained}


def plain_job(run: Run) -> Plain:
    """The job, if FSDP2 can train it as DDP does."""
    replica = _sole_replica(run)
    _require_alike(replica)
    _require_cuttable(run.optimizer)
    tensors = [p for g in run.optimizer.param_groups for p in g["params"] if p.requires_grad]
    _require_free(tensors)
    owned = set(map(id, replica.module.parameters()))
    if any(id(p) not in owned for p in tensors):
        raise _refused("its optimizer trains tensors outside of the DistributedDataParallel module")
    blocks = list(_blocks(replica.module, set(map(id, tensors))))
    places = {
        (id(module), name): tensor
        for module in replica.module.modules()
        for name, tensor in module.named_parameters(recurse=False)
    }
    return Plain(replica, run.optimizer, tensors, blocks, places)


def _blocks(model: Any, trained: set[int]) -> Iterator[Any]:
    """Those that the prediction names, by the paths of what is trained."""
    modules: dict[str, Any] = {}
    for path, module in model.named_modules():
        modules.setdefault(clean_path(path), module)
    layers = [
        (clean_path(path), tensor)
        for path, module in model.named_modules()
        for tensor in module.parameters(recurse=False)
        if id(tensor) in trained
    ]
    owner: dict[int, str] = {}
    for path, places in blocks_of([layer for layer, _ in layers]).items():
        for place in places:
            if owner.setdefault(id(layers[place][1]), path) != path:
                raise _refused(f"a tensor is shared by {layers[place][0]} and a layer elsewhere")
        if path:
            yield _callable(path, modules[path])
    if not any(owner.values()):
        raise _refused("its model numbers no blocks (as in layers.3) that could be wrapped")


def _callable(path: str, module: Any) -> Any:
    kinds = {p.dtype for p in module.parameters() if p.requires_grad}
    if len(kinds) > 1:
        raise _refused(f"{path} trains tensors of several types, {', '.join(map(str, kinds))}")
    if type(module).__name__ in ("ModuleList", "ModuleDict"):
        raise _refused(f"{path} is a list of modules, and is not called as one")
    return module


def _sole_replica(run: Run) -> Any:
    if len(run.replicas) != 1:
        raise _refused(f"it has {len(run.replicas)} DistributedDataParallel modules, and needs one")
    replica = run.replicas[0]
    if dist.get_world_size(replica.process_group) < 2:
        raise _refused("one worker has nobody to share its weights with")
    return replica


def _require_cuttable(optimizer: Any) -> None:
    if updates_a_part(optimizer):
        raise _refused("its ZeroRedundancyOptimizer has shared out the tensors already")
    require_known(optimizer)
    fused = any(group.get("fused") for group in optimizer.param_groups)
    if fused and type(optimizer).__name__ not in _FUSED:
        raise _refused(f"torch has no fused {type(optimizer).__name__} for weights that are cut")


_FUSED = ("Adam", "AdamW")
"""Optimizers whose fused kernels DTensor knows."""


def _require_alike(replica: Any) -> None:
    """Each rank reduces the same gradients in the same order."""
    if replica.find_unused_parameters:
        raise _refused("with find_unused_parameters ranks may use unlike parts of the model")
    if hasattr(replica, "buffer_hook"):
        raise _refused("its buffers are exchanged by a hook of its own")


def _require_free(tensors: Iterable[Any]) -> None:
    """Tensors that may become others in place."""
    for tensor in tensors:
        if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
            raise _refused("its parameters have hooks of their own, which would see parts of them")
        if type(tensor) is not nn.Parameter:
            raise _refused(f"its parameters are cut already or of their own kind ({type(tensor)})")
        if not tensor.ndim:
            raise _refused("a single number among its parameters cannot be cut")
        if not tensor.is_contiguous():
            raise _refused("its parameters do not lie in the order of their dimensions")


def _refused(why: str) -> ExchangeError:
    return ExchangeError(f"this job cannot go on under FSDP2: {why}; leave fully_sharded out")
