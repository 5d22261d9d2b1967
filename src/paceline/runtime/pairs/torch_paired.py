"""A live DDP job whose pairs of linear layers workers side by side share, until the context is
left."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any, NoReturn

import torch.distributed as dist
from torch import nn

from paceline.runtime.exchange import ExchangeError, Sent
from paceline.runtime.pairs.torch_found import LivePair, live_pairs
from paceline.runtime.pairs.torch_gradients import HolderMeans
from paceline.runtime.pairs.torch_layers import Shared, Whole, in_pairs
from paceline.runtime.pairs.torch_rows import Rows
from paceline.runtime.parts.torch_cuttable import Trained, trained_job
from paceline.runtime.parts.torch_lone import Cut, Lone
from paceline.runtime.parts.torch_parts import cut, in_parts
from paceline.runtime.parts.torch_passes import LonePasses
from paceline.runtime.run import Run
from paceline.runtime.torch_attributes import instead
from paceline.runtime.torch_groups import new_groups
from paceline.runtime.torch_optimizers import sole
from paceline.runtime.torch_reducer import ignoring

_NUMBER = count()
"""Of each mesh: torch keeps what it worked out for one of the same ranks and names, whose group may
be gone."""


@contextmanager
def paired(run: Run, degree: int, sent: Sent) -> Iterator[None]:
    """All ranks come here together, and leave together unless by an error."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.experimental import implicit_replication

    job = trained_job(run, _refused)
    _require_interpreted(job.model)
    sharers, holders = _groups(job.replica.process_group, degree)
    pairs = live_pairs(run, job, degree, _refused)
    backend = dist.get_backend(job.replica.process_group)
    with ExitStack() as stack:
        groups = stack.enter_context(new_groups([sharers, holders], backend))
        talk = stack.enter_context(new_groups([sharers]))[sharers]
        device = job.tensors[0].device.type
        mesh = DeviceMesh.from_group(
            groups[sharers], device, mesh_dim_names=(f"pairs {next(_NUMBER)}",)
        )
        whole = [getattr(m, name) for pair in pairs for m, name, _ in pair.cut()]
        stack.enter_context(sole(run.optimizer, run.replicas))
        stack.enter_context(ignoring(job.replica, whole))
        parts = stack.enter_context(_in_place(job, pairs, mesh))
        stack.enter_context(implicit_replication())  # norms and updates of parts beside the rest
        stack.enter_context(_unwarned())
        lone = Lone(Cut(job, parts, mesh, "tensor_parallel"), talk)
        stack.enter_context(lone.serving())
        passes = LonePasses(job.model)
        stack.enter_context(passes.watched())
        shared = Shared(Rows(groups[sharers], sent), 1 / degree, passes, Whole(lone))
        stack.enter_context(in_pairs(job.model, pairs, shared))
        if len(holders) > 1:
            means = HolderMeans(job.replica, groups[holders], sent)
            stack.enter_context(means.of(parts))
        stack.enter_context(instead(job.replica, "join", lambda _: _refuse_join))
        yield


def _groups(group: Any, degree: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ranks that share pairs with this one, and those that hold the same parts."""
    ranks, place = dist.get_process_group_ranks(group), dist.get_group_rank(group, dist.get_rank())
    if len(ranks) % degree:
        raise _refused(f"its {len(ranks)} workers cannot be put together by {degree}")
    first = place - place % degree
    return tuple(ranks[first : first + degree]), tuple(ranks[place % degree :: degree])


def _require_interpreted(model: nn.Module) -> None:
    for module in model.modules():
        if getattr(module, "_compiled_call_impl", None) is not None or hasattr(module, "_orig_mod"):
            raise _refused("it is compiled, and compilers do not see the workers' exchange")


@contextmanager
def _in_place(job: Trained, pairs: Sequence[LivePair], mesh: Any) -> Iterator[list[Any]]:
    """Parts hang where their tensors did, and are trained in their place."""
    places = [(m, name, getattr(m, name), dim) for pair in pairs for m, name, dim in pair.cut()]
    made = {id(tensor): nn.Parameter(cut(tensor, mesh, dim)) for _, _, tensor, dim in places}
    with in_parts(job, [made.get(id(tensor)) for tensor in job.tensors]):
        try:
            for module, name, tensor, _ in places:
                module._parameters[name] = made[id(tensor)]
            yield [made[id(tensor)] for _, _, tensor, _ in places]
        finally:
            for module, name, tensor, _ in places:
                module._parameters[name] = tensor


@contextmanager
def _unwarned() -> Iterator[None]:
    """A tensor of one number beside parts is not worth torch's warning, for all hold it."""
    warnings.filterwarnings("ignore", "Found a non-scalar tensor with numel=1")
    kept = warnings.filters[0]
    try:
        yield
    finally:
        if kept in warnings.filters:
            warnings.filters.remove(kept)  # type: ignore[attr-defined]


def _refuse_join(*_: Any, **__: Any) -> NoReturn:
    raise ExchangeError(
        "workers that share pairs of layers take part in every step of each other, and this job "
        "lets some end early (DistributedDataParallel.join); leave tensor_parallel out"
    )


def _refused(why: str) -> ExchangeError:
    return ExchangeError(f"this job's workers cannot share pairs: {why}; leave tensor_parallel out")
