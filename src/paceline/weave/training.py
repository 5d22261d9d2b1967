"""`fused_step`: gradients, parameters and optimizer state of a DDP model in one shared arena, and
one fused ReduceScatter, update and AllGather in place of all-reduce plus optimizer.step().

    with weave.fused_step(model, optimizer) as step:
        for x, y in data:
            loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()

Inside the context parameters, gradients and state are views into shared memory; leaving it gives
every one back as an ordinary tensor with its last value. Gradients are averaged in the step;
`torch.nn.utils.clip_grad_norm_` is part of it, and other readers call `average_gradients` first.
The optimizer's state lies there once a host instead of once a rank. Where the ranks share no
memory, or there is no compiler, the model is left as it is, and the log and `step.schedule` say so.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from paceline.errors import PacelineError
from paceline.weave.arena import ParameterArena
from paceline.weave.backend import Peers
from paceline.weave.clipping import clipping_of_averages
from paceline.weave.cpu.backend import CpuBackend
from paceline.weave.cpu.compile import CompileError
from paceline.weave.cpu.segment import SharedMemoryError
from paceline.weave.host import HostSettings
from paceline.weave.layout import Group
from paceline.weave.recipes import recipe_for

log = logging.getLogger(__name__)

FUSED = "fused reduce-scatter, update, all-gather"
PLAIN = "all-reduce, then optimizer.step()"


class FusedStepError(PacelineError):
    """A model or a use of it that the fused step cannot serve."""


@dataclass(frozen=True)
class FusedStep:
    """What runs in the context: the schedule, and why where it is the plain one."""

    schedule: str
    reason: str = ""
    arenas: Sequence[ParameterArena] = ()

    def average_gradients(self) -> None:
        """Make every `.grad` the average over all workers, as after a DDP backward pass, to be
        read or changed before the step. All workers must call it."""
        for arena in self.arenas:
            arena.average()


@contextmanager
def fused_step(
    model: DistributedDataParallel, optimizer: torch.optim.Optimizer, *, timeout_s: float = 60.0
) -> Iterator[FusedStep]:
    """Put the fused schedule under a DDP model whose optimizer is SGD, Adam, AdamW or Lamb.

    All ranks must enter together. `timeout_s`: how long a rank waits for one that is alive but
    does not come to the step; a rank that has died is noticed at once.
    """
    if not isinstance(model, DistributedDataParallel):
        raise FusedStepError(
            f"fused_step needs a DistributedDataParallel model, got {type(model).__name__}"
        )
    _refuse_communication_hook(model)
    recipe = recipe_for(optimizer)
    for group in optimizer.param_groups:
        recipe.check(group)
    try:
        arenas = _arenas(model, optimizer, timeout_s)
    except (SharedMemoryError, CompileError) as error:
        log.warning("the plain schedule runs (%s): %s", PLAIN, error)
        yield FusedStep(PLAIN, str(error))
        return
    with ExitStack() as stack:
        for arena in arenas:
            stack.enter_context(arena.in_use())
        stack.enter_context(_without_gradient_sync(model))
        stack.enter_context(_stepping(optimizer, arenas))
        stack.enter_context(clipping_of_averages(arenas))
        yield FusedStep(FUSED, arenas=arenas)


def _refuse_communication_hook(model: DistributedDataParallel) -> None:
    """A hook of DDP's all-reduce, which does not run inside the context."""
    if name := model._get_ddp_logging_data().get("comm_hook"):
        raise FusedStepError(
            f"the model has the communication hook {name}, and fused_step replaces the all-reduce "
            "that it changes; use a model without a hook, or plain DDP"
        )


def _arenas(
    model: DistributedDataParallel, optimizer: torch.optim.Optimizer, timeout_s: float
) -> list[ParameterArena]:
    """An arena for each parameter group that trains anything."""
    process_group = model.process_group
    size = dist.get_world_size(process_group)
    group = Group.world(size)
    peers = Peers(dist.get_rank(process_group), {group: process_group})
    backend = CpuBackend(HostSettings.here(), timeout_s)
    _require_everywhere(backend, process_group)
    return [
        ParameterArena(optimizer, index, backend, peers)
        for index, settings in enumerate(optimizer.param_groups)
        if any(p.requires_grad for p in settings["params"])
    ]


def _require_everywhere(backend: CpuBackend, process_group: Any) -> None:
    """All ranks decide alike: one without a compiler makes all of them fall back."""
    reasons: list[str | None] = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(reasons, backend.capabilities(), group=process_group)
    for rank, reason in enumerate(reasons):
        if reason:
            raise CompileError(f"rank {rank}: {reason}")


@contextmanager
def _without_gradient_sync(model: DistributedDataParallel) -> Iterator[None]:
    """DDP leaves the gradients alone; buffers (batch norm) are still kept equal."""
    before = model.require_backward_grad_sync
    model.require_backward_grad_sync = False
    hook = model.register_forward_pre_hook(_sync_buffers)
    try:
        yield
    finally:
        hook.remove()
        model.require_backward_grad_sync = before
        model.require_forward_param_sync = True


def _sync_buffers(model: DistributedDataParallel, inputs: Any) -> None:
    if model._comm_hooks:
        _refuse_communication_hook(model)
    if model.training and model.broadcast_buffers and torch.is_grad_enabled():
        model.require_forward_param_sync = True
        if model.will_sync_module_buffers():
            model._sync_buffers()
    model.require_forward_param_sync = False


def _take_state(arenas: list[ParameterArena]) -> None:
    for arena in arenas:
        arena.take_state()


@contextmanager
def _stepping(optimizer: torch.optim.Optimizer, arenas: list[ParameterArena]) -> Iterator[None]:
    """`optimizer.step()` runs the fused kernels; schedulers and step hooks go on working."""

    def step(self: torch.optim.Optimizer, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._opt_called = True  # what a learning-rate scheduler looks for
        for arena in arenas:
            arena.step()
        return loss

    hooked = torch.optim.Optimizer.profile_hook_step(step)
    hooked._wrapped_by_lr_sched = True
    before = optimizer.__dict__.get("step")
    optimizer.step = hooked.__get__(optimizer)
    handle = optimizer.register_load_state_dict_post_hook(lambda _: _take_state(arenas))
    try:
        yield
    finally:
        handle.remove()
        del optimizer.step
        if before is not None:
            optimizer.step = before
