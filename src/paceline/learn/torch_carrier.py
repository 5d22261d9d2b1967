"""`Gloo`: the processes of torch.distributed carry clients, as torchrun or the lab started them.

Messages go straight from worker to worker, in one piece for each pair. Sums are made by every
receiver in the order of the clients, so that a run is the same on any number of workers. With
`sums`, means are all-reduces of the library instead, as deployments have them: quicker, but they
add up in an order that depends on the number of workers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from paceline.learn.carrier import Carrier, Here, Parcel, Pending, PendingMean
from paceline.learn.errors import LearnError
from paceline.learn.message import packed, unpacked
from paceline.learn.samples import Vector


class Gloo(Carrier):
    """The default process group must stand."""

    def __init__(self, sums: bool = False) -> None:
        self.rank, self.workers = dist.get_rank(), dist.get_world_size()
        self.sums = sums
        self._known: dict[str, list[list[int]]] = {}  # sizes, by what is alike

    def send(self, parcels: Sequence[Parcel], alike: str = "") -> Pending:
        if self.workers == 1:
            return Here(tuple(parcels))
        blobs = {rank: self._blob(parcels, rank) for rank in range(self.workers)}
        kept = tuple(
            Parcel(p.source, tuple(t for t in p.targets if self.carries(t)), p.message)
            for p in parcels
            if any(self.carries(t) for t in p.targets)
        )
        sizes = self._sizes([len(blobs[rank]) for rank in range(self.workers)], alike)
        others = [rank for rank in range(self.workers) if rank != self.rank]
        receives = {r: _receive(r, sizes[r][self.rank]) for r in others if sizes[r][self.rank]}
        sends = [_send(rank, blobs[rank]) for rank in others if blobs[rank]]
        return _UnderWay(kept, receives, sends)

    def summed(self, vectors: Sequence[Vector], size: int) -> PendingMean:
        buffer = torch.zeros(size + 1)  # the last counts
        for vector in vectors:
            buffer[: len(vector)] += torch.from_numpy(vector)
        buffer[-1] = len(vectors)
        return _Sum(_guarded("all workers", lambda: dist.all_reduce(buffer, async_op=True)), buffer)

    def _blob(self, parcels: Sequence[Parcel], rank: int) -> bytes:
        """All that goes to one worker."""
        mine = [
            (p.source, [t for t in p.targets if self.of(t) == rank], packed(p.message))
            for p in parcels
            if rank != self.rank and any(self.of(t) == rank for t in p.targets)
        ]
        if not mine:
            return b""
        head = json.dumps([[source, targets, len(body)] for source, targets, body in mine])
        return b"\n".join([head.encode(), b"".join(body for _, _, body in mine)])

    def _sizes(self, mine: list[int], alike: str) -> list[list[int]]:
        """Of all blobs, by sender and receiver."""
        if alike in self._known:
            if self._known[alike][self.rank] != mine:
                raise LearnError(f"messages of {alike!r} were said to be alike and are not")
            return self._known[alike]
        rows = [torch.empty(self.workers, dtype=torch.int64) for _ in range(self.workers)]
        _guarded("all workers", lambda: dist.all_gather(rows, torch.tensor(mine)))
        found = [row.tolist() for row in rows]
        if alike:
            self._known[alike] = found
        return found


@dataclass(frozen=True, eq=False)
class _UnderWay:
    kept: tuple[Parcel, ...]
    receives: dict[int, tuple[Any, Any]]
    sends: list[tuple[Any, Any]]

    def wait(self) -> Sequence[Parcel]:
        came = list(self.kept)
        for rank, (work, buffer) in self.receives.items():
            _guarded(f"worker {rank}", work.wait)
            came += _parcels(buffer.numpy().tobytes())
        for work, _ in self.sends:
            _guarded("a worker", work.wait)
        return sorted(came, key=lambda parcel: parcel.source)


@dataclass(frozen=True, eq=False)
class _Sum:
    work: Any
    buffer: Any

    def mean(self) -> Vector:
        _guarded("all workers", self.work.wait)
        if not self.buffer[-1]:
            raise LearnError("nobody sent anything to take the mean of; give a smaller lr or drops")
        found: Vector = (self.buffer[:-1] / self.buffer[-1]).numpy()
        return found


def _receive(rank: int, size: int) -> tuple[Any, Any]:
    buffer = torch.empty(size, dtype=torch.uint8)
    return _guarded(f"worker {rank}", lambda: dist.irecv(buffer, rank)), buffer


def _send(rank: int, blob: bytes) -> tuple[Any, Any]:
    buffer = torch.from_numpy(np.frombuffer(blob, np.uint8).copy())
    return _guarded(f"worker {rank}", lambda: dist.isend(buffer, rank)), buffer


def _parcels(blob: bytes) -> list[Parcel]:
    head, _, body = blob.partition(b"\n")
    found, at = [], 0
    for source, targets, size in json.loads(head):
        found.append(Parcel(source, tuple(targets), unpacked(body[at : at + size])))
        at += size
    return found


def _guarded(who: str, act: Any) -> Any:
    """torch reports a dead or silent worker as RuntimeError; say what was lost."""
    try:
        return act()
    except RuntimeError as lost:
        raise LearnError(
            f"lost the connection to {who}: it has ended, or was silent beyond the timeout. Look "
            f"at its log for the cause; the rounds that were kept can be read ({lost})"
        ) from lost
