"""`Endpoint`: one rank's end of the transport."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.wire.errors import PeerLost, WireError
from paceline.wire.orders import Arrived, Bytes, Orders, Receive, Transfer, TransferPhase
from paceline.wire.settings import Tuning, core

_NO_LIMIT = 2**63 - 1


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


class Endpoint:
    """Binds a port, then talks with its peers until it is closed.

    `exchange` sends and receives some tensors and returns once all is done. `post` begins with
    some, and `wait` tells of those that have arrived, so that more can be posted meanwhile.
    """

    def __init__(
        self, rank: int, job: JobKey, address: Address, tuning: Tuning | None = None
    ) -> None:
        self.rank, self.job, self.tuning = rank, job, tuning or Tuning()
        made = core()
        self._lost, self._fault = made.WirePeerLost, made.WireFault
        self._rooms: dict[Transfer, Bytes] = {}  # that the native core writes to
        self._sending: dict[Transfer, tuple[Bytes, ...]] = {}  # that it reads
        self._arrived: list[Arrived] = []
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

    def post(self, orders: Orders) -> None:
        """Begin to send and receive these. Arrays stay as they are until their tensors have ended;
        `wait`, `exchange` and `settle` go on with all that is open."""
        sends = {orders.named(s): s for s in orders.sends if s.values.size}
        rooms = {orders.named(r): (r, _bytes(r.into)) for r in orders.receives if r.into.size}
        sent = {
            name: (_bytes(s.values), s.marks.tos, s.marks.important) for name, s in sends.items()
        }
        phase = int(orders.phase)
        out = [(s.peer, s.tensor, phase, s.layer, *sent[name]) for name, s in sends.items()]
        into = [
            (r.peer, r.tensor, phase, room, int(r.budget * room.size)) for r, room in rooms.values()
        ]
        if len(into) + len(out) < _tensors(orders):
            raise WireError("a tensor was asked for twice in one post; number them apart")
        budget = _NO_LIMIT if orders.budget_bytes is None else orders.budget_bytes
        with self._told():
            self._native.post(orders.step, budget, out, into)
        self._sending |= sent
        self._rooms |= {name: room for name, (_, room) in rooms.items()}
        self._arrived += [_nothing(orders, r) for r in orders.receives if not r.into.size]

    def wait(self) -> list[Arrived]:
        """What has arrived, or is done without, since the last call; none only once nothing is
        open any more."""
        if not self._arrived:
            self._go_on(all=False)
        found, self._arrived = self._arrived, []
        return found

    def exchange(self, orders: Orders) -> list[Arrived]:
        """Send and receive these and all else that is open: what came of each of `receives`."""
        self.post(orders)
        self._go_on(all=True)
        mine = [orders.named(receive) for receive in orders.receives]
        came = {one.transfer: one for one in self._arrived}
        self._arrived = [one for one in self._arrived if one.transfer not in set(mine)]
        return [came[name] for name in mine]

    def settle(self) -> None:
        """Go on until nothing is open."""
        self._go_on(all=True)

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

    def _go_on(self, *, all: bool) -> None:
        with self._told():
            arrived, sent = self._native.wait(all)
        for name in sent:
            self._sending.pop(_transfer(name), None)
        for name, missing_bytes, ended_ns, flags in arrived:
            transfer = _transfer(name)
            size_bytes = self._rooms.pop(transfer).size
            self._arrived.append(Arrived(transfer, size_bytes, missing_bytes, ended_ns, flags))

    def _forget(self) -> None:
        """After an error nothing is open."""
        self._rooms.clear()
        self._sending.clear()
        self._arrived.clear()

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
        if error is None:
            return
        self._endpoint._forget()
        if isinstance(error, self._endpoint._lost):
            raise PeerLost(f"{error}. Look at that rank's log, or give it more time") from error
        if isinstance(error, self._endpoint._fault):
            raise WireError(str(error)) from error


def _tensors(orders: Orders) -> int:
    """How many are not empty."""
    arrays = [*(s.values for s in orders.sends), *(r.into for r in orders.receives)]
    return sum(array.size > 0 for array in arrays)


def _transfer(name: tuple[int, int, int, int]) -> Transfer:
    peer, step, tensor, phase = name
    return Transfer(peer, step, tensor, TransferPhase(phase))


def _nothing(orders: Orders, receive: Receive) -> Arrived:
    return Arrived(orders.named(receive), 0, 0, 0, np.ones(0, np.uint8))


def _bytes(values: NDArray[Any]) -> Bytes:
    """The same memory, as bytes."""
    if not values.flags.c_contiguous:
        raise WireError("values must lie in one piece of memory; make them contiguous first")
    if values.nbytes >= 2**32:
        raise WireError(f"{values.nbytes} bytes in one tensor are too many; 4 GiB is the most")
    return values.reshape(-1).view(np.uint8)
