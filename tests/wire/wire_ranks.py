"""Ranks of the transport as threads of one process, on loopback, and a relay that loses packets."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from paceline.wire import Address, Endpoint, JobKey, Patience, Tuning
from paceline.wire.settings import core

JOB = JobKey(7, bytes(range(16)))
HERE = Address("127.0.0.1", 0)
QUICK = Tuning(patience=Patience(timeout_s=20.0))
DATA, DONE = 1, 5
FIELDS = "kind importance source job step tensor layer offset length sequence phase round".split()


def packet(payload: bytes = b"", of: JobKey = JOB, **fields: int) -> bytes:
    """One message, as the core writes it."""
    values = {"kind": DATA, "job": of.number, **fields}
    body = np.frombuffer(payload, np.uint8)
    return bytes(core().wire_packet(of.bytes, body, [values.get(name, 0) for name in FIELDS]))


def parsed(message: bytes, job: JobKey = JOB) -> tuple[int, dict[str, int]]:
    """The verdict (0: fine) and the header."""
    verdict, fields = core().wire_parse(np.frombuffer(message, np.uint8), job.number, job.bytes)
    return verdict, dict(zip(FIELDS, fields))


class Relay:
    """A port that hands datagrams on to another, but for those that `lose` wants to vanish, and
    those that it `repeats`; the last of a pair may overtake the first."""

    def __init__(self, to: Address, lose: Callable[[dict[str, int]], bool]) -> None:
        self._to, self._lose = to, lose
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while message := self._socket.recv(1 << 16):
            verdict, header = parsed(message)
            if verdict == 0 and not self._lose(header):
                self.hand_on(message)

    def hand_on(self, message: bytes) -> None:
        self._socket.sendto(message, (self._to.host, self._to.port))

    def close(self) -> None:
        self._socket.sendto(b"", (self.address.host, self.address.port))
        self._thread.join()
        self._socket.close()


class Doubling(Relay):
    """Hands each packet on twice, and every pair in the wrong order."""

    def __init__(self, to: Address) -> None:
        self._held: bytes | None = None
        super().__init__(to, lambda header: False)

    def hand_on(self, message: bytes) -> None:
        if self._held is None and parsed(message)[1]["kind"] == DATA:
            self._held = message
            return
        for each in (message, self._held or b""):
            if each:
                super().hand_on(each)
                super().hand_on(each)
        self._held = None


@contextmanager
def ranks(count: int, tuning: Tuning = QUICK, relays: Any = None) -> Iterator[list[Endpoint]]:
    """Connected endpoints. `relays(endpoints)` may give {(from, to): address} of other ways."""
    with ExitStack() as stack:
        made = [stack.enter_context(Endpoint(n, JOB, HERE, tuning)) for n in range(count)]
        other = relays(made) if relays else {}
        peers = {one.rank: one.address for one in made}

        def connect(one: Endpoint) -> None:
            ways = {rank: other.get((one.rank, rank), at) for rank, at in peers.items()}
            one.connect(ways, 20)

        together([lambda one=one: connect(one) for one in made])
        yield made


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each returns, all running at once."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [done.result() for done in [pool.submit(call) for call in calls]]
