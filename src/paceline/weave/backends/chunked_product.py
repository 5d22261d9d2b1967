"""Products whose rows are summed over the ranks while later rows are still being computed.

Between two ranks a chunk crosses once, directly, and each adds the other's: one hop, over a link
of their own where there is one, else over gloo. Among more, each chunk is one asynchronous
all-reduce. `taper` makes every chunk that much smaller than the one before: where the product takes
longer than the wire, the last chunk's transfer, which nothing hides, gets short.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist

from paceline.weave.backends.peer_link import PeerLink


@dataclass(frozen=True)
class Chunking:
    """How rows are cut: how many chunks, each `taper` times the one before."""

    chunks: int = 8
    taper: float = 1.0

    def borders(self, rows: int) -> list[int]:
        """The first row of every chunk but the first; ascending, within the rows."""
        chunks = max(min(self.chunks, rows), 1)
        weights = [self.taper**i for i in range(chunks)]
        ends = [round(rows * sum(weights[: i + 1]) / sum(weights)) for i in range(chunks - 1)]
        return [max(i + 1, min(end, rows - chunks + i + 1)) for i, end in enumerate(ends)]


@dataclass(frozen=True, eq=False)
class ChunkTransport:
    """How chunks reach the other ranks: the process group (None: the default one), what they are
    combined with, and a link that the group's two ranks may share."""

    group: Any = None
    reduction: Any = dist.ReduceOp.SUM
    link: PeerLink | None = None


def overlapped_product(
    left: Any,
    right: Any,
    transport: ChunkTransport,
    cut: Chunking,
    *,
    out: Any = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Any:
    """all_reduce(left @ right) by chunks of rows, into `out` where it is given. `meanwhile` is run
    after the last chunk was sent and before it is waited for."""
    shape = (*left.shape[:-1], right.shape[-1])
    whole = torch.empty(shape, dtype=left.dtype, device=left.device) if out is None else out
    borders = cut.borders(left.shape[0])
    parts, outs = left.tensor_split(borders), whole.tensor_split(borders)
    transfer = _transfer_of(transport, whole, borders)
    with transport.link or nullcontext():
        for number, (part, rows) in enumerate(zip(parts, outs)):
            torch.matmul(part, right, out=rows)
            transfer.start(number, rows)
        meanwhile()
        transfer.finish(outs)
    return whole


class _Transfer(Protocol):
    """The summing of one product's chunks."""

    def start(self, number: int, out: Any) -> None:
        """Chunk `number` has been computed: send it."""

    def finish(self, outs: Any) -> None:
        """Until all chunks were received and added."""


def _transfer_of(transport: ChunkTransport, whole: Any, borders: list[int]) -> _Transfer:
    if transport.reduction != dist.ReduceOp.SUM or dist.get_world_size(transport.group) != 2:
        return _AllReduces(transport.group, transport.reduction)
    if transport.link is None or not (whole.is_cpu and whole.is_contiguous()):
        return _SendReceive(transport.group, whole, borders)
    return LinkTransfer(transport.link, whole)


class LinkTransfer:
    """Hand over what is computed, add what has come: whenever a chunk is done, and at the end.

    What comes is added as soon as this rank's own rows have been handed to the kernel, a cacheful
    at a time.
    """

    def __init__(self, link: PeerLink, whole: Any) -> None:
        self._link, self._flat = link, whole.view(-1)
        self._bytes = _bytes(self._flat)
        self._scratch = torch.empty(_SCRATCH // whole.itemsize, dtype=whole.dtype)
        self._room = _bytes(self._scratch)
        self._computed = self._sent = self._held = self._added = 0  # bytes

    def start(self, number: int, out: Any) -> None:
        self._computed += out.numel() * out.itemsize
        self._move()

    def finish(self, outs: Any) -> None:
        while self._added < len(self._bytes):
            self._link.wait(
                to_send=self._sent < self._computed,
                to_receive=self._added + self._held < self._sent,
            )
            self._move()

    def _move(self) -> None:
        while self._send() or self._receive():
            pass

    def _send(self) -> int:
        ready = self._bytes[self._sent : self._computed]
        count = self._link.send(ready) if ready else 0
        self._sent += count
        return count

    def _receive(self) -> int:
        """Into the scratch; whole numbers are added and leave it."""
        free = min(len(self._room) - self._held, self._sent - self._added - self._held)
        count = self._link.receive(self._room[self._held : self._held + free]) if free else 0
        self._held += count
        size, first = self._flat.itemsize, self._added // self._flat.itemsize
        numbers = self._held // size
        if numbers:
            self._flat[first : first + numbers] += self._scratch[:numbers]
            left = self._room[numbers * size : self._held]
            self._room[: len(left)] = left
            self._added, self._held = self._added + numbers * size, len(left)
        return count


_SCRATCH = 1 << 18
"""Bytes: a quarter of a core's second-level cache here."""


def _bytes(tensor: Any) -> memoryview:
    return memoryview(tensor.view(torch.uint8).numpy())


class _AllReduces:
    """One asynchronous all-reduce a chunk."""

    def __init__(self, group: Any, reduction: Any) -> None:
        self._group, self._reduction, self._handles = group, reduction, list[Any]()

    def start(self, number: int, out: Any) -> None:
        handle = dist.all_reduce(out, self._reduction, group=self._group, async_op=True)
        self._handles.append(handle)

    def finish(self, outs: Any) -> None:
        for handle in self._handles:
            handle.wait()


class _SendReceive:
    """Both ranks send what they have and add what comes."""

    def __init__(self, group: Any, whole: Any, borders: list[int]) -> None:
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        self._group, self._peer = group, ranks[1 - dist.get_rank(group)]
        self._received = torch.empty_like(whole).tensor_split(borders)
        self._receiving = [
            dist.irecv(part, self._peer, group=group, tag=number)
            for number, part in enumerate(self._received)
        ]
        self._sending: list[Any] = []

    def start(self, number: int, out: Any) -> None:
        self._sending.append(dist.isend(out, self._peer, group=self._group, tag=number))

    def finish(self, outs: Any) -> None:
        """Added only once sent: the chunk is its own send buffer."""
        for receiving, sending, part, out in zip(
            self._receiving, self._sending, self._received, outs
        ):
            receiving.wait()
            sending.wait()
            out.add_(part)
