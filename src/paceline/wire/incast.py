"""One process of an incast: rank 0 asks, all others send it their tensor at once, and a round ends
with the slowest. Contenders take turns, so that all meet the same machine.

    RANK=0 python -m paceline.wire.incast FILE      # the file says who, how much, how often
"""

import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from paceline.wire.contenders import Contender, Rounds, Timed, from_json, timed_to_json
from paceline.wire.endpoint import Address, Endpoint, JobKey
from paceline.wire.group import Layers, WireGroup
from paceline.wire.importance import Importance
from paceline.wire.orders import Orders, Receive, Send, TransferPhase
from paceline.wire.settings import Patience

SEED = 77
WORST_WAIT_S = 120.0


class Side(Protocol):
    """One end of one contender."""

    def round(self, step: int) -> int:
        """One round; at the receiver, bytes that are missing."""

    def counters(self) -> dict[str, int]: ...

    def close(self) -> None: ...


def main(file: str) -> None:
    rounds, contenders = from_json(json.loads(Path(file).read_text()))
    rank, server = int(os.environ["RANK"]), os.environ["MASTER_ADDR"]
    hosts = os.environ["PACELINE_INCAST_HOSTS"].split(",")
    sides = [
        side(contender, rounds, IncastPlace(rank, server, tuple(hosts), rounds.port + number))
        for number, contender in enumerate(contenders)
    ]
    timed = take_turns(rounds, contenders, sides)
    if rank == 0:
        print(json.dumps(timed_to_json(timed)))
    for one in sides:
        one.close()


def take_turns(
    rounds: Rounds, contenders: Sequence[Contender], sides: Sequence[Side]
) -> list[Timed]:
    """All rounds of all, in blocks. The first of each is not counted, and not the last, in which
    processes that are done end beside those that still send."""
    took: list[list[int]] = [[] for _ in sides]
    missing: list[list[int]] = [[] for _ in sides]
    for one in sides:
        one.round(0)
    for start in range(0, rounds.rounds, rounds.block):
        for number, one in enumerate(sides):
            for step in range(start, min(start + rounds.block, rounds.rounds)):
                began = time.monotonic_ns()
                missing[number].append(one.round(step + 1))
                took[number].append(time.monotonic_ns() - began)
    for one in sides:
        one.round(rounds.rounds + 1)
    return [
        Timed(contender, tuple(took[n]), tuple(missing[n]), sides[n].counters())
        for n, contender in enumerate(contenders)
    ]


class IncastPlace:
    """Which rank this is, and where the others are."""

    def __init__(self, rank: int, server: str, hosts: tuple[str, ...], port: int) -> None:
        self.rank, self.server, self.hosts, self.port = rank, server, hosts, port


def side(contender: Contender, rounds: Rounds, place: IncastPlace) -> Side:
    if not contender.is_tcp:
        return WireSide(contender, rounds, place)
    if contender.gloo:
        return _over_gloo(contender, rounds, place)
    if place.rank == 0:
        return TcpReceiver(contender, rounds, place)
    return TcpSender(contender, rounds, place)


def _over_gloo(contender: Contender, rounds: Rounds, place: IncastPlace) -> Side:
    from paceline.wire.torch_gloo import GlooReceiver, GlooSender, Seat

    seat = Seat(place.rank, len(place.hosts), place.server, place.port)
    end = GlooSender if place.rank else GlooReceiver
    return end(seat, contender.congestion, rounds.size_bytes)


class WireSide:
    """Our transport, either end."""

    def __init__(self, contender: Contender, rounds: Rounds, place: IncastPlace) -> None:
        job = JobKey(SEED + place.port, bytes(range(16)))
        tuning = contender.tuning(rounds.link_bits_per_s, rounds.window_bytes)
        here = Address(place.hosts[place.rank], place.port)
        self._endpoint = Endpoint(place.rank, job, here, tuning)
        peers = range(1, len(place.hosts)) if place.rank == 0 else [0]
        self._endpoint.connect(
            {peer: Address(place.hosts[peer], place.port) for peer in peers}, WORST_WAIT_S
        )
        count = rounds.size_bytes // 4
        self._sends: list[Send] = []
        self._receives: list[Receive] = []
        if place.rank == 0:
            self._receives = [
                Receive(peer, np.zeros(count, np.float32), budget=contender.budget)
                for peer in peers
            ]
        else:
            values = np.random.default_rng(place.rank).standard_normal(count).astype(np.float32)
            group = WireGroup(self._endpoint, [0, place.rank], importance=importance(contender))
            self._sends = [Send(0, values, marks=group.marks(values, Layers(1)))]

    def round(self, step: int) -> int:
        orders = Orders(step, TransferPhase.PUSH, self._sends, self._receives)
        return sum(arrived.missing_bytes for arrived in self._endpoint.exchange(orders))

    def counters(self) -> dict[str, int]:
        return self._endpoint.counters

    def close(self) -> None:
        self._endpoint.close()


def importance(contender: Contender) -> Importance | None:
    """Of one layer. Where all must arrive, nothing is marked, as of other people's packets."""
    marked = contender.budget > 0 and contender.important > 0
    return Importance(1, contender.important) if marked else None


def _with(congestion: str) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    return made


class TcpReceiver:
    """Asks each sender with one byte, and reads until all of all is there."""

    def __init__(self, contender: Contender, rounds: Rounds, place: IncastPlace) -> None:
        self._size = rounds.size_bytes
        self._room = memoryview(bytearray(1 << 18))
        with _with(contender.congestion) as server:
            server.bind(("", place.port))
            server.listen(64)
            server.settimeout(WORST_WAIT_S)
            self._links = [server.accept()[0] for _ in place.hosts[1:]]
        for link in self._links:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def round(self, step: int) -> int:
        left = dict.fromkeys(self._links, self._size)
        with selectors.DefaultSelector() as waiting:
            for link in self._links:
                waiting.register(link, selectors.EVENT_READ, link)
                link.sendall(b"g")
            while left:
                for key, _ in waiting.select(WORST_WAIT_S):
                    ready: socket.socket = key.data
                    left[ready] -= ready.recv_into(self._room)
                    if left[ready] == 0:
                        waiting.unregister(ready)
                        del left[ready]
        return 0

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        for link in self._links:
            link.close()


class TcpSender:
    """Sends all when it is asked."""

    def __init__(self, contender: Contender, rounds: Rounds, place: IncastPlace) -> None:
        self._data = bytes(rounds.size_bytes)
        end = time.monotonic() + WORST_WAIT_S
        while True:
            self._link = _with(contender.congestion)
            try:
                self._link.connect((place.server, place.port))
                break
            except ConnectionRefusedError:
                self._link.close()
                if time.monotonic() > end:
                    raise
                time.sleep(Patience().retry_ms / 1e3)
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def round(self, step: int) -> int:
        if not self._link.recv(1):
            raise ConnectionError("the receiver is gone")
        self._link.sendall(self._data)
        return 0

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self._link.close()


if __name__ == "__main__":
    main(sys.argv[1])
