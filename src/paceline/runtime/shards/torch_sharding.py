"""A live job trained under FSDP2 in place of DDP, until the context is left."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

import torch.distributed as dist

from paceline.runtime.exchange import ExchangeError, Sent
from paceline.runtime.parts.torch_lone import Cut, Lone
from paceline.runtime.parts.torch_parts import in_parts
from paceline.runtime.run import Run
from paceline.runtime.shards.torch_blocks import plain_job
from paceline.runtime.shards.torch_calls import Passes, counted
from paceline.runtime.shards.torch_wrapped import part_of, parts_of, resharded, wrapped
from paceline.runtime.torch_attributes import instead
from paceline.runtime.torch_groups import new_groups
from paceline.runtime.torch_reducer import without_reducer


@contextmanager
def sharded(run: Run, sent: Sent) -> Iterator[None]:
    """All ranks come here together, and leave together unless by an error."""
    from torch.distributed.device_mesh import DeviceMesh

    job = plain_job(run)
    replica, group = job.replica, job.replica.process_group
    ranks = tuple(dist.get_process_group_ranks(group))
    mesh = DeviceMesh.from_group(group, job.tensors[0].device.type)
    with new_groups([ranks]) as made, ExitStack() as stack:
        stack.enter_context(without_reducer(replica))
        groups = stack.enter_context(wrapped(job, mesh))
        parts = parts_of(job, groups)
        stack.enter_context(in_parts(job, parts, lambda: resharded(groups)))
        cut = Cut(job, parts, mesh, "fully_sharded")
        lone = Lone(cut, made[ranks], lambda number: part_of(groups[number]))
        stack.enter_context(lone.serving(sent.stepped))
        passes = Passes(job.model, groups, lone.group)
        stack.enter_context(passes.watched())
        stack.enter_context(counted(groups, passes, sent))
        stack.enter_context(instead(replica, "join", lambda _: _refuse_join))
        yield


def _refuse_join(*_: Any, **__: Any) -> NoReturn:
    raise ExchangeError(
        "under FSDP2 every worker takes part in every step, and this job lets some end early "
        "(DistributedDataParallel.join); leave fully_sharded out"
    )
