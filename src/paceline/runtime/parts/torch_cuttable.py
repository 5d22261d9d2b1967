"""Jobs whose tensors may be cut among their ranks, and why others' may not."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import nn

from paceline.runtime.exchange import ExchangeError
from paceline.runtime.run import Run
from paceline.runtime.torch_optimizers import require_known, updates_a_part

Refused = Callable[[str], ExchangeError]
"""Of why: the error that names the strategy."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A job under DDP, as it is before its weights are cut."""

    replica: Any  # its DistributedDataParallel module
    optimizer: Any
    tensors: Sequence[Any]  # what it trains, in the optimizer's order

    @property
    def model(self) -> Any:
        return self.replica.module


def trained_job(run: Run, refused: Refused) -> Trained:
    """The job, if its tensors may be cut."""
    replica = sole_replica(run, refused)
    require_same_use(replica, refused)
    _require_cuttable(run.optimizer, refused)
    tensors = [p for g in run.optimizer.param_groups for p in g["params"] if p.requires_grad]
    owned = set(map(id, replica.module.parameters()))
    if any(id(p) not in owned for p in tensors):
        raise refused("its optimizer trains tensors outside of the DistributedDataParallel module")
    return Trained(replica, run.optimizer, tensors)


def sole_replica(run: Run, refused: Refused) -> Any:
    if len(run.replicas) != 1:
        raise refused(f"it has {len(run.replicas)} DistributedDataParallel modules, and needs one")
    replica = run.replicas[0]
    if dist.get_world_size(replica.process_group) < 2:
        raise refused("one worker has nobody to share its weights with")
    return replica


def _require_cuttable(optimizer: Any, refused: Refused) -> None:
    if updates_a_part(optimizer):
        raise refused("its ZeroRedundancyOptimizer has shared out the tensors already")
    require_known(optimizer)
    fused = any(group.get("fused") for group in optimizer.param_groups)
    if fused and type(optimizer).__name__ not in _FUSED:
        raise refused(f"torch has no fused {type(optimizer).__name__} for weights that are cut")


_FUSED = ("Adam", "AdamW")
"""Optimizers whose fused kernels DTensor knows."""


def require_same_use(replica: Any, refused: Refused) -> None:
    """Each rank runs the same parts of the model, and reduces the same gradients."""
    if replica.find_unused_parameters:
        raise refused("with find_unused_parameters ranks may use unlike parts of the model")
    if hasattr(replica, "buffer_hook"):
        raise refused("its buffers are exchanged by a hook of its own")


def require_free(tensors: Iterable[Any], refused: Refused) -> None:
    """Tensors that may become others in place."""
    for tensor in tensors:
        if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
            raise refused("its parameters have hooks of their own, which would see parts of them")
        if type(tensor) is not nn.Parameter:
            raise refused(f"its parameters are cut already or of their own kind ({type(tensor)})")
        if not tensor.ndim:
            raise refused("a single number among its parameters cannot be cut")
        if not tensor.is_contiguous():
            raise refused("its parameters do not lie in the order of their dimensions")
