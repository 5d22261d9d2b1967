"""`Endpoint`: one rank's end of the transport, and what it is asked to send and receive."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.wire.errors import PeerLost, WireError
from paceline.wire.importance import PLAIN, Marks
from paceline.wire.settings import Tuning, core

Bytes = NDArray[np.uint8]


class Phase(IntEnum):
    """What a tensor is on its way for; part of every packet's name."""

    PUSH = 1  # gradients to a server
    PULL = 2  # parameters from it
    SCATTER = 3  # the first half of an all-reduce: gradients to who adds them up
    GATHER = 4  # the second: sums to all
    FLAGS = 5  # which packets are missing
    DIGEST = 6  # of what a replica holds


@dataclass(frozen=True)
class JobKey:
    """What the packets of one job share: its number, and the key of their checksums."""

    number: int
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != 16 or not 0 <= self.number < 2**32:
            raise WireError("a job has a number below 2**32 and a key of 16 bytes")

    @staticmethod
    def new() -> "JobKey":
        return JobKey(secrets.randbits(32), secrets.token_bytes(16))

    @property
    def bytes(self) -> Bytes:
        return np.frombuffer(self.secret, np.uint8)


@dataclass(frozen=True)
class Address:
    """Where an endpoint listens, on UDP and TCP alike."""

    host: str
    port: int


@dataclass(frozen=True)
class Send:
    """Values for a peer."""

    peer: int
    values: NDArray[Any]
    tensor: int = 0
    layer: int = 0
    marks: Marks = PLAIN


@dataclass(frozen=True)
class Receive:
    """Room for a peer's values. What is lost within the budget (a share) stays as it was there."""

    peer: int
    into: NDArray[Any]
    tensor: int = 0
    budget: float = 0.0


@dataclass(frozen=True)
class Arrived:
    """What came of one tensor. `flags` has a byte per packet, 1 where it has arrived."""

    size_bytes: int
    missing_bytes: int
    ended_ns: int  # on the monotonic clock
    flags: Bytes


class Endpoint:
    """Binds a port, then talks with its peers until it is closed."""

    def __init__(
        self, rank: int, job: JobKey, address: Address, tuning: Tuning | None = None
    ) -> None:
        self.rank, self.job, self.tuning = rank, job, tuning or Tuning()
        made = core()
        self._lost, self._fault = made.WirePeerLost, made.WireFault
        with self._told():
            self._native = made.WireEndpoint(
                address.host, address.port, rank, job.number, job.bytes, self.tuning.native()
            )
        self.address = Address(address.host, self._native.port)

    def connect(self, peers: Mapping[int, Address], timeout_s: float = 60.0) -> None:
        """Meet all peers; they are to call this too."""
        others = [(rank, at.host, at.port) for rank, at in peers.items() if rank != self.rank]
        with self._told():
            self._native.connect(others, timeout_s)

    def exchange(
        self,
        step: int,
        phase: Phase,
        sends: Sequence[Send],
        receives: Sequence[Receive],
        budget_bytes: int | None = None,
    ) -> list[Arrived]:
        """Send and receive these tensors; returns once all have arrived, or are done without.

        `budget_bytes` is what all of them together may lose, beside each one's own budget. Empty
        tensors are not sent.
        """
        out = [
            (s.peer, s.tensor, int(phase), s.layer, _bytes(s.values), s.marks.tos,
             s.marks.important)
            for s in sends if s.values.size
        ]  # fmt: skip
        rooms = [(r, _bytes(r.into)) for r in receives]
        into = [
            (r.peer, r.tensor, int(phase), room, int(r.budget * room.size))
            for r, room in rooms if room.size
        ]  # fmt: skip
        with self._told():
            told = iter(self._native.exchange(step, _all(budget_bytes), out, into))
        return [
            Arrived(room.size, *next(told)) if room.size else Arrived(0, 0, 0, np.ones(0, np.uint8))
            for _, room in rooms
        ]

    @property
    def counters(self) -> dict[str, int]:
        """Packets sent, received, and thrown away by reason, since the endpoint was made."""
        return dict(self._native.counters())

    def close(self) -> None:
        self._native.close()

    def __enter__(self) -> "Endpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _told(self) -> "_Told":
        return _Told(self)


class _Told:
    """Turns the native core's errors into this package's."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, self._endpoint._lost):
            raise PeerLost(f"{error}. Look at that rank's log, or give it more time") from error
        if isinstance(error, self._endpoint._fault):
            raise WireError(str(error)) from error


def _all(budget_bytes: int | None) -> int:
    return 2**63 - 1 if budget_bytes is None else budget_bytes


def _bytes(values: NDArray[Any]) -> Bytes:
    """The same memory, as bytes."""
    if not values.flags.c_contiguous:
        raise WireError("values must lie in one piece of memory; make them contiguous first")
    if values.nbytes >= 2**32:
        raise WireError(f"{values.nbytes} bytes in one tensor are too many; 4 GiB is the most")
    return values.reshape(-1).view(np.uint8)
