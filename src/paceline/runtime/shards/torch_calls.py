"""FSDP2's collectives, counted; and gathers of a pass that one rank makes alone.

Under DDP one rank may evaluate a model while the others wait, and nobody sends anything. So where
no gradients will follow a pass, its weights are asked for instead (`torch_lone`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.runtime.exchange import Sent
from paceline.runtime.torch_all_to_all import arriving
from paceline.runtime.torch_sharded import SHARES

Fetch = Callable[[int, int], torch.Tensor]
"""Of a group's number and a rank's place: its part of the group's weights, asked for."""


class Passes:
    """Which way weights come in the pass under way: gathered by all ranks, or asked for by one."""

    def __init__(self, model: Any, groups: Sequence[Any], fetch: Fetch) -> None:
        self._model, self._groups, self._fetch = model, groups, fetch
        self._asks = False
        self._whole: list[Any] = []  # groups that were gathered before this pass
        self._order = 0  # groups that had passed forward before it

    @contextmanager
    def watched(self) -> Iterator[None]:
        with ExitStack() as stack:
            begin = self._model.register_forward_pre_hook(self._begin, prepend=True)
            stack.callback(begin.remove)
            end = self._model.register_forward_hook(self._end, always_call=True)
            stack.callback(end.remove)
            yield

    def ask(self, group: int, output: torch.Tensor, mine: torch.Tensor, place: int) -> bool:
        """Whether this gather was asked for rather than shared."""
        if not self._asks:
            return False
        for rank, part in enumerate(output.chunk(len(output) // len(mine))):
            part.copy_(mine if rank == place else self._fetch(group, rank))
        return True

    def _begin(self, *_: Any) -> None:
        self._asks = not (torch.is_grad_enabled() and self._model.training)
        if self._asks:
            self._whole = [group for group in self._groups if group.is_unsharded]
            self._order = len(self._passed())

    def _end(self, *_: Any) -> None:
        """FSDP2 as it was: what it remembers of this pass others may not have made."""
        if not self._asks:
            return
        self._asks = False
        order = self._passed()
        for group in order[self._order :]:
            group._post_forward_indices.pop()
        del order[self._order :]
        for group in self._groups:
            if group not in self._whole:
                group._to_sharded()

    def _passed(self) -> list[Any]:
        """Groups in the order of their forward passes; none before FSDP2's first."""
        found: list[Any] = getattr(self._groups[0].comm_ctx, "post_forward_order", [])
        return found


@contextmanager
def counted(groups: Sequence[Any], passes: Passes, sent: Sent) -> Iterator[None]:
    """Behind FSDP2's modules, whose groups go with them."""
    for number, group in enumerate(groups):
        group._all_gather_comm = _Gather(group._all_gather_comm, number, passes, sent)
        group._reduce_scatter_comm = _Reduce(group._reduce_scatter_comm, sent)
    yield


class _Gather(AllGather):  # type: ignore[misc]
    def __init__(self, way: AllGather, number: int, passes: Passes, sent: Sent) -> None:
        self._way, self._number, self._passes, self._sent = way, number, passes, sent

    def allocate(self, *size: Any, **kind: Any) -> torch.Tensor:
        return self._way.allocate(*size, **kind)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        async_op: bool = False,
    ) -> Any:
        place = dist.get_rank(group)
        if self._passes.ask(self._number, output_tensor, input_tensor, place):
            return None
        _count(self._sent, Collective.ALL_GATHER, output_tensor, group)
        return self._way(output_tensor, input_tensor, group, async_op)


class _Reduce(ReduceScatter):  # type: ignore[misc]
    def __init__(self, way: ReduceScatter, sent: Sent) -> None:
        self._way, self._sent = way, sent

    def allocate(self, *size: Any, **kind: Any) -> torch.Tensor:
        return self._way.allocate(*size, **kind)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> Any:
        if dist.get_backend(group) == "gloo" and op in SHARES and not async_op:
            _count(self._sent, Collective.ALL_TO_ALL, input_tensor, group)
            return _directly(output_tensor, input_tensor, group, op)
        _count(self._sent, Collective.REDUCE_SCATTER, input_tensor, group)
        return self._way(output_tensor, input_tensor, group, op, async_op)


def _directly(mine: torch.Tensor, whole: torch.Tensor, group: Any, op: Any) -> None:
    """Each rank's part goes to it from all others, and is added up there. Gloo's reduce-scatter is
    an all-reduce, which sends twice as much."""
    parts = whole.view(dist.get_world_size(group), -1).unbind()
    mine.copy_(parts[dist.get_rank(group)])
    for part in arriving(parts, group):
        mine.add_(part)
    mine.mul_(SHARES[op](len(parts)))


def _count(sent: Sent, kind: Collective, whole: torch.Tensor, group: Any) -> None:
    size = whole.numel() * whole.element_size()
    sent.call(size, round(size * sent_share(kind, dist.get_world_size(group))))
