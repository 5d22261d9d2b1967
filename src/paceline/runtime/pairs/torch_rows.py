"""`Rows`: activations of a group's workers, put together at a pair's entry, and summed back to
their owners at its exit; the other way round in the backward pass.

A payload at the entry tells how many bytes its worker has, and has room for as many as all had the
last time. Where they differ all see it, and raise; where all have changed alike, they make room and
send again.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective
from paceline.graph.shared_pairs import HEADER_BYTES
from paceline.runtime.exchange import ExchangeError, Sent
from paceline.runtime.torch_all_to_all import add_up, arriving_from


@dataclass
class EntryRoom:
    """For how many bytes of a worker's rows a pair's payload has room, alike on all workers."""

    size_bytes: int = 0


class Rows:
    """Of the workers of one group. Results of all have the workers as their first dimension."""

    def __init__(self, group: Any, sent: Sent) -> None:
        self._group, self._sent = group, sent
        self._place, self._count = dist.get_rank(group), dist.get_world_size(group)

    def entered(self, mine: Tensor, room: EntryRoom) -> Tensor:
        """All workers' rows, whose number is made sure of."""
        own = mine.contiguous().view(-1).view(torch.uint8)
        while True:
            payload = own.new_empty(HEADER_BYTES + room.size_bytes)
            payload[:HEADER_BYTES].view(torch.int64).fill_(len(own))
            if len(own) == room.size_bytes:
                payload[HEADER_BYTES:].copy_(own)
            every = self._gathered(payload, counted=room.size_bytes > 0)
            sizes = every[:, :HEADER_BYTES].contiguous().view(torch.int64).flatten().tolist()
            _require_alike(sizes)
            if len(own) == room.size_bytes:
                data = every[:, HEADER_BYTES:].contiguous().view(mine.dtype)
                return data.view(self._count, *mine.shape)
            room.size_bytes = len(own)

    def gathered(self, mine: Tensor) -> Tensor:
        """All workers' rows, of which each is known to have as many."""
        return self._gathered(mine.contiguous(), counted=True)

    def own_sum(self, whole: Tensor) -> Tensor:
        """This worker's rows, summed over the parts of all."""
        whole = whole.contiguous()
        mine = whole.new_empty(whole.shape[1:])
        add_up(mine, whole, self._group)
        self._told(whole)
        return mine

    def _gathered(self, mine: Tensor, *, counted: bool) -> Tensor:
        every = mine.new_empty(self._count, *mine.shape)
        every[self._place] = mine
        for place, part in arriving_from([mine] * self._count, self._group):
            every[place] = part
        if counted:
            self._told(every)
        return every

    def _told(self, whole: Tensor) -> None:
        size = whole.numel() * whole.element_size()
        self._sent.call(size, round(size * sent_share(Collective.ALL_TO_ALL, self._count)))


def _require_alike(sizes: list[int]) -> None:
    if len(set(sizes)) > 1:
        raise ExchangeError(
            f"workers that share pairs of layers have batches of unlike size in this step "
            f"({', '.join(map(str, sizes))} bytes of activations); deal equal batches, as with "
            "drop_last=True, or leave tensor_parallel out of the plan"
        )


class Enter(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, rows: Rows, room: EntryRoom, mine: Tensor) -> Tensor:
        context.rows = rows
        return rows.entered(mine, room)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> Any:
        return None, None, context.rows.own_sum(gradient)


class Leave(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, rows: Rows, whole: Tensor) -> Tensor:
        context.rows = rows
        return rows.own_sum(whole)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, gradient: Tensor) -> Any:
        return None, context.rows.gathered(gradient)
