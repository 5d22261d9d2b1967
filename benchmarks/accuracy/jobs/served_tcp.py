"""A parameter server over plain TCP, the baseline of served_training.py: the server reads from and
writes to all workers at once. Its tensor may be cut into parts, of which one is on its way back
while others still come; one part of everything is a push and then a pull.
"""

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator

import numpy as np

WAIT_S = 120.0
PART_VALUES = 5728  # as many as the transport's parts have
Update = Callable[[slice], None]


def tcp(congestion: str) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Ways:
    """What one connection has yet to read and to write."""

    def __init__(self, link: socket.socket, room: np.ndarray, values: np.ndarray) -> None:
        self.link, self.room = link, memoryview(room).cast("B")
        self.values = memoryview(values).cast("B")
        self.got = self.gone = 0

    def wants(self, ready: int) -> int:
        """The events to wait for where so many bytes may be written; 0: nothing."""
        read = selectors.EVENT_READ if self.got < len(self.room) else 0
        return read | (selectors.EVENT_WRITE if self.gone < ready else 0)

    def act(self, events: int, ready: int) -> None:
        if events & selectors.EVENT_READ:
            count = self.link.recv_into(self.room[self.got :])
            if not count:
                raise ConnectionError("the other side is gone")
            self.got += count
        if events & selectors.EVENT_WRITE:
            self.gone += self.link.send(self.values[self.gone : ready])


def exchanged(ways: list[Ways], ready: Callable[[], int]) -> None:
    """All is read, and all of the values written that are ready."""
    with selectors.DefaultSelector() as waiting:
        while True:
            until = ready()
            for one in ways:
                _watch(waiting, one, one.wants(until))
            if not waiting.get_map():
                return
            found = waiting.select(WAIT_S)
            if not found:
                raise TimeoutError(f"nothing came for {WAIT_S:g} s")
            for key, events in found:
                key.data.act(events, until)


def _watch(waiting: selectors.BaseSelector, one: Ways, events: int) -> None:
    known = waiting.get_map().get(one.link)
    if known is None and events:
        waiting.register(one.link, events, one)
    elif known is not None and not events:
        waiting.unregister(one.link)
    elif known is not None and known.events != events:
        waiting.modify(one.link, events, one)


class TcpServer:
    def __init__(self, congestion: str, port: int, workers: int, part_values: int) -> None:
        self._part_values = part_values
        with tcp(congestion) as server:
            server.bind(("", port))
            server.listen(workers)
            server.settimeout(WAIT_S)
            self._links = [server.accept()[0] for _ in range(workers)]
        for link in self._links:
            link.setblocking(False)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def step(self, sums: np.ndarray, values: np.ndarray, update: Update, step: int) -> None:
        rooms = [np.empty_like(sums) for _ in self._links]
        ways = [Ways(link, room, values) for link, room in zip(self._links, rooms)]
        parts = _parts(len(sums), self._part_values)
        part, updated = next(parts, None), 0

        def ready() -> int:
            nonlocal part, updated
            came = min(one.got for one in ways) // sums.itemsize
            while part is not None and came >= part.stop:
                np.sum([room[part] for room in rooms], axis=0, out=sums[part])
                update(part)
                part, updated = next(parts, None), part.stop * sums.itemsize
            return updated

        exchanged(ways, ready)

    def settle(self) -> None:
        """The kernel goes on with what is written."""


class TcpWorker:
    def __init__(self, congestion: str, port: int, server: str) -> None:
        end = time.monotonic() + WAIT_S
        while True:
            self._link = tcp(congestion)
            try:
                self._link.connect((server, port))
                break
            except ConnectionRefusedError:
                self._link.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self._link.setblocking(False)

    def step(self, gradient: np.ndarray, weights: np.ndarray, step: int) -> None:
        exchanged([Ways(self._link, weights, gradient)], lambda: gradient.nbytes)

    def settle(self) -> None:
        """The server has read all, since it has answered."""


def _parts(values: int, each: int) -> Iterator[slice]:
    for first in range(0, values, each):
        yield slice(first, min(first + each, values))


def workers() -> int:
    return int(os.environ["WORLD_SIZE"]) - 1
