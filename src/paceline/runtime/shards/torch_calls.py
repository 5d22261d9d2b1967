"""FSDP2's collectives, counted; and gathers of a pass that one rank makes alone."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.runtime.exchange import Sent
from paceline.runtime.parts.torch_passes import LonePasses
from paceline.runtime.torch_all_to_all import add_up
from paceline.runtime.torch_sharded import SHARES

Fetch = Callable[[int, int], torch.Tensor]
"""Of a group's number and a rank's place: its part of the group's weights, asked for."""


class Passes(LonePasses):
    """Which way weights come in the pass under way: gathered by all ranks, or asked for by one."""

    def __init__(self, model: Any, groups: Sequence[Any], fetch: Fetch) -> None:
        super().__init__(model)
        self._groups, self._fetch = groups, fetch
        self._whole: list[Any] = []  # groups that were gathered before this pass
        self._order = 0  # groups that had passed forward before it

    def ask(self, group: int, output: torch.Tensor, mine: torch.Tensor, place: int) -> bool:
        """Whether this gather was asked for rather than shared."""
        if not self.alone:
            return False
        for rank, part in enumerate(output.chunk(len(output) // len(mine))):
            part.copy_(mine if rank == place else self._fetch(group, rank))
        return True

    def _begin(self, *_: Any) -> None:
        super()._begin()
        if self.alone:
            self._whole = [group for group in self._groups if group.is_unsharded]
            self._order = len(self._passed())

    def _end(self, *_: Any) -> None:
        """FSDP2 as it was: what it remembers of this pass others may not have made."""
        alone = self.alone
        super()._end()
        if not alone:
            return
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
            add_up(output_tensor, input_tensor, group)
            output_tensor.mul_(SHARES[op](dist.get_world_size(group)))
            return None
        _count(self._sent, Collective.REDUCE_SCATTER, input_tensor, group)
        return self._way(output_tensor, input_tensor, group, op, async_op)


def _count(sent: Sent, kind: Collective, whole: torch.Tensor, group: Any) -> None:
    size = whole.numel() * whole.element_size()
    sent.call(size, round(size * sent_share(kind, dist.get_world_size(group))))
