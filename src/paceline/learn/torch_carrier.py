"""`Gloo`: the processes of torch.distributed carry clients, as torchrun or the lab started them.

Messages go straight from worker to worker, in one piece for each pair. Sums are made by every
receiver in the order of the clients, so that a run is the same on any number of workers. With
`sums`, means are all-reduces of the library instead, as deployments have them: quicker, but they
add up in an order that depends on the number of workers.

A worker that dies closes its connections. Those that are left then close theirs, so that everyone
notices, agree through the store which launcher or worker 0 keeps, and form a group of their own
(`torch_regroup`). Workers keep their numbers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from paceline.learn.carrier import Carrier, Here, Parcel, Pending, PendingMean, Reformed
from paceline.learn.errors import Disconnected, LearnError
from paceline.learn.message import headed, packed, unpacked
from paceline.learn.samples import Vector
from paceline.learn.torch_regroup import Regroup, closed


class Gloo(Carrier):
    """The default process group must stand. With `regroup`, workers may be lost."""

    def __init__(self, sums: bool = False, regroup: Regroup | None = None) -> None:
        self.rank, self.workers = dist.get_rank(), dist.get_world_size()
        self.sums, self._regroup = sums, regroup
        self.alive = tuple(range(self.workers))
        self._gone: dict[int, str] = {}
        self._group: Any = dist.group.WORLD
        self._known: dict[str, dict[int, list[int]]] = {}  # sizes, by what is alike

    @property
    def gone(self) -> Mapping[int, str]:
        return self._gone

    @property
    def may_lose(self) -> bool:
        return self._regroup is not None and len(self.alive) > 1

    @property
    def whole(self) -> bool:
        """Nobody was lost."""
        return len(self.alive) == self.workers

    def reformed(self, round_: int, lost: Disconnected) -> Reformed:
        if self._regroup is None:
            raise lost
        closed(self._group, self.alive.index(self.rank))
        agreed = self._regroup.agreed(self.rank, self.alive, round_, lost)
        self.alive = tuple(n for n in self.alive if n not in agreed.gone)
        self._gone |= agreed.gone
        self._group = self._regroup.made(self.alive.index(self.rank), len(self.alive))
        self._known = {}
        return agreed

    def met(self) -> None:
        """Behind this all workers that are left have come so far."""
        _guarded("all workers", lambda: self._group.allreduce([torch.zeros(1)]).wait())

    def send(self, parcels: Sequence[Parcel], alike: str = "") -> Pending:
        if self.workers == 1:
            return Here(tuple(parcels))
        blobs = {rank: self._blob(parcels, rank) for rank in self.alive}
        kept = tuple(
            Parcel(p.source, tuple(t for t in p.targets if self.carries(t)), p.message)
            for p in parcels
            if any(self.carries(t) for t in p.targets)
        )
        sizes = self._sizes([len(blobs.get(n, b"")) for n in range(self.workers)], alike)
        others = [rank for rank in self.alive if rank != self.rank]
        receives = {r: self._receive(r, sizes[r][self.rank]) for r in others if sizes[r][self.rank]}
        sends = [self._send(rank, blobs[rank]) for rank in others if blobs[rank]]
        return _UnderWay(kept, receives, sends)

    def summed(self, vectors: Sequence[Vector], size: int) -> PendingMean:
        buffer = torch.zeros(size + 1)  # the last counts
        for vector in vectors:
            buffer[: len(vector)] += torch.from_numpy(vector)
        buffer[-1] = len(vectors)
        return _Sum(_guarded("all workers", lambda: self._group.allreduce([buffer])), buffer)

    def _blob(self, parcels: Sequence[Parcel], rank: int) -> bytearray:
        """All that goes to one worker, as memory that torch takes as it is."""
        mine = [
            (p.source, [t for t in p.targets if self.of(t) == rank], packed(p.message))
            for p in parcels
            if rank != self.rank and any(self.of(t) == rank for t in p.targets)
        ]
        if not mine:
            return bytearray()
        head = json.dumps([[source, targets, len(body)] for source, targets, body in mine])
        return bytearray().join([head.encode(), b"\n", *(body for _, _, body in mine)])

    def _sizes(self, mine: list[int], alike: str) -> dict[int, list[int]]:
        """Of all blobs, by sender and receiver."""
        if alike in self._known:
            if self._known[alike][self.rank] != mine:
                raise LearnError(f"messages of {alike!r} were said to be alike and are not")
            return self._known[alike]
        rows = [torch.empty(self.workers, dtype=torch.int64) for _ in self.alive]
        told = torch.tensor(mine)
        _guarded("all workers", lambda: self._group.allgather([rows], [told]).wait())
        found = {rank: row.tolist() for rank, row in zip(self.alive, rows)}
        if alike:
            self._known[alike] = found
        return found

    def _receive(self, rank: int, size: int) -> tuple[Any, Any]:
        buffer, at = torch.empty(size, dtype=torch.uint8), self.alive.index(rank)
        return _guarded(f"worker {rank}", lambda: self._group.recv([buffer], at, 0)), buffer

    def _send(self, rank: int, blob: bytearray) -> tuple[Any, Any]:
        buffer = torch.frombuffer(blob, dtype=torch.uint8)
        at = self.alive.index(rank)
        return _guarded(f"worker {rank}", lambda: self._group.send([buffer], at, 0)), buffer


@dataclass(frozen=True, eq=False)
class _UnderWay:
    kept: tuple[Parcel, ...]
    receives: dict[int, tuple[Any, Any]]
    sends: list[tuple[Any, Any]]

    def wait(self) -> Sequence[Parcel]:
        came = list(self.kept)
        for rank, (work, buffer) in self.receives.items():
            _guarded(f"worker {rank}", work.wait)
            came += _parcels(buffer.numpy().data)
        for work, _ in self.sends:
            _guarded("a worker", work.wait)
        return sorted(came, key=lambda parcel: parcel.source)


@dataclass(frozen=True, eq=False)
class _Sum:
    work: Any
    buffer: Any

    def mean(self) -> Vector | None:
        _guarded("all workers", self.work.wait)
        if not self.buffer[-1]:
            return None
        found: Vector = (self.buffer[:-1] / self.buffer[-1]).numpy()
        return found


def _parcels(blob: memoryview) -> list[Parcel]:
    head, body = headed(blob)
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
        raise Disconnected(
            f"lost the connection to {who}: it has ended, or was silent beyond the timeout. Look "
            f"at its log for the cause; the rounds that were kept can be read ({lost})"
        ) from lost
