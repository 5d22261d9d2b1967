"""`RowGathers`: rows of all ranks, gathered while other work goes on.

A payload is a count, and so many rows of a layer's input and of the gradient of its result. It has
room for a number of rows on which all ranks agree when the layer is first used: a rank with fewer
fills it up, and where one has more, all see it by the counts, gather what was left out, and make
the room larger. Gathers are finished in the order in which they were started, for all ranks must
ask for the same ones in the same order.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.runtime.codecs import Sharing
from paceline.runtime.codecs.torch_communicate import Under, share
from paceline.runtime.exchange import Sent
from paceline.runtime.sufficient_factors import HEADER_BYTES


@dataclass
class PayloadRoom:
    """For how many rows a layer's payload has room, alike on all ranks; 0: nobody has asked yet."""

    rows: int = 0


@dataclass(frozen=True)
class FactorPair:
    """Rows of a layer's input, and of the gradient of its result."""

    inputs: Tensor
    gradient: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, rows: slice) -> "FactorPair":
        return FactorPair(self.inputs[rows], self.gradient[rows])

    def behind(self, count: int) -> "FactorPair":
        """All but the first so many; where none are left, it holds no memory."""
        if len(self) > count:
            return self[slice(count, None)]
        parts = (self.inputs, self.gradient)
        return FactorPair(*(part.new_empty(0, part.shape[1]) for part in parts))

    @property
    def row_bytes(self) -> int:
        width = self.inputs.shape[1] + self.gradient.shape[1]
        size: int = width * self.inputs.element_size()
        return size

    @staticmethod
    def joined(parts: "Sequence[FactorPair]") -> "FactorPair":
        inputs, gradients = [p.inputs for p in parts], [p.gradient for p in parts]
        return FactorPair(torch.cat(inputs), torch.cat(gradients))


@dataclass(eq=False)
class Gather:
    """One that is under way, or whose rows are there."""

    room: PayloadRoom
    had: int  # rows for which the payload had room
    left: FactorPair  # this rank's rows for which it had none
    under: Under
    rows: FactorPair | None = None


class RowGathers:
    """Among the members of one group; each rank's gradient counts as its share of the mean."""

    def __init__(self, group: Any, sent: Sent) -> None:
        self._group, self._sent = group, sent
        self._share = 1.0 / dist.get_world_size(group)
        self._under_way: deque[Gather] = deque()

    def start(self, room: PayloadRoom, mine: FactorPair) -> Gather:
        if not room.rows:
            room.rows = self._agreed(len(mine), mine.inputs.device)
        under = self._started(mine[: room.rows], room.rows, HEADER_BYTES, len(mine))
        gather = Gather(room, room.rows, mine.behind(room.rows), under)
        self._under_way.append(gather)
        return gather

    def finish(self, gather: Gather) -> FactorPair:
        """The rows of all ranks, in their order."""
        while gather.rows is None:
            first = self._under_way.popleft()
            first.rows = self._arrived(first)
        return gather.rows

    def _agreed(self, rows: int, device: torch.device) -> int:
        """The most that any rank has; 1 where none has any."""
        told = torch.tensor([max(1, rows)], device=device)
        dist.all_reduce(told, dist.ReduceOp.MAX, group=self._group)
        return int(told.item())

    def _started(self, mine: FactorPair, room: int, header: int, count: int = 0) -> Under:
        """`header` bytes in front tell a count."""
        began = perf_counter_ns()
        size = header + room * mine.row_bytes
        payload = torch.zeros(size, dtype=torch.uint8, device=mine.inputs.device)
        if header:
            payload[:header].view(torch.int64).fill_(count)
        there = _rows(payload[header:], mine, room)
        there.inputs[: len(mine)].copy_(mine.inputs)
        torch.mul(mine.gradient, self._share, out=there.gradient[: len(mine)])
        self._sent.coded(perf_counter_ns() - began)
        under = share(Sharing.GATHER, payload, self._group)
        self._sent.call(under.size_bytes, under.wire_bytes)
        return under

    def _arrived(self, gather: Gather) -> FactorPair:
        gather.under.future.wait()
        had, payloads = gather.had, gather.under.payloads
        counts = torch.cat([p[:HEADER_BYTES] for p in payloads]).view(torch.int64).tolist()
        parts = [
            [_rows(payload[HEADER_BYTES:], gather.left, had)[: min(count, had)]]
            for payload, count in zip(payloads, counts)
        ]
        if max(counts) > had:
            for part, more in zip(parts, self._left_out(gather, counts)):
                part.append(more)
        gather.room.rows = max(gather.room.rows, *counts)
        began = perf_counter_ns()
        found = FactorPair.joined([one for part in parts for one in part])
        self._sent.coded(perf_counter_ns() - began)
        return found

    def _left_out(self, gather: Gather, counts: Sequence[int]) -> list[FactorPair]:
        """Of each rank, what its payload had no room for."""
        room = max(counts) - gather.had
        under = self._started(gather.left, room, 0)
        under.future.wait()
        return [
            _rows(payload, gather.left, room)[: max(0, count - gather.had)]
            for payload, count in zip(under.payloads, counts)
        ]


def _rows(payload: Tensor, like: FactorPair, room: int) -> FactorPair:
    """A payload's bytes as rows."""
    numbers = payload.view(like.inputs.dtype)
    inputs, outputs = like.inputs.shape[1], like.gradient.shape[1]
    border = room * inputs
    return FactorPair(numbers[:border].view(room, inputs), numbers[border:].view(room, outputs))
