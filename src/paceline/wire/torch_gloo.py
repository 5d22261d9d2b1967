"""gloo beside the transport: its own sends and receives, over TCP with the congestion control asked
for. gloo opens its sockets itself, so they are looked for among this process's files, and told."""

import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from paceline.wire.errors import WireError

PATIENCE = timedelta(seconds=120)


@dataclass(frozen=True)
class Seat:
    """One rank of a group, and where rank 0 keeps the store by which all find each other."""

    rank: int
    size: int
    server: str
    port: int


def group(seat: Seat, congestion: str) -> Any:
    """All of the group call it; each pair of ranks has then a connection."""
    store = dist.TCPStore(seat.server, seat.port, seat.size, seat.rank == 0, PATIENCE)
    before = set(_sockets())
    made = dist.ProcessGroupGloo(store, seat.rank, seat.size, PATIENCE)
    told = sum(controlled(file, congestion) for file in set(_sockets()) - before)
    if told < seat.size - 1:
        raise WireError(
            f"gloo opened {told} TCP connections on rank {seat.rank} where {seat.size - 1} were "
            f"looked for, so they cannot be told to use {congestion}"
        )
    return made


def controlled(file: int, congestion: str) -> bool:
    """Whether this is a TCP connection; it then uses that congestion control from now on."""
    with socket.socket(fileno=os.dup(file)) as found:
        if found.type != socket.SOCK_STREAM or found.family == socket.AF_UNIX:
            return False
        try:
            found.getpeername()
        except OSError:  # it listens
            return False
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    return True


def _sockets() -> Iterator[int]:
    for name in os.listdir("/proc/self/fd"):
        try:
            mode = os.fstat(int(name)).st_mode
        except OSError:  # the folder's own, which is closed again
            continue
        if stat.S_ISSOCK(mode):
            yield int(name)


class GlooReceiver:
    """Asks each sender with one byte, and waits for what all send."""

    def __init__(self, seat: Seat, congestion: str, size_bytes: int) -> None:
        self._group = group(seat, congestion)
        self._rooms = {n: torch.empty(size_bytes // 4) for n in range(1, seat.size)}
        self._asking = torch.zeros(1, dtype=torch.uint8)

    def round(self, step: int) -> int:
        coming = [self._group.recv([room], peer, step) for peer, room in self._rooms.items()]
        asked = [self._group.send([self._asking], peer, step) for peer in self._rooms]
        for work in (*asked, *coming):
            work.wait()
        return 0

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        del self._group


class GlooSender:
    """Sends all when it is asked."""

    def __init__(self, seat: Seat, congestion: str, size_bytes: int) -> None:
        self._group = group(seat, congestion)
        self._values = torch.zeros(size_bytes // 4)
        self._asked = torch.zeros(1, dtype=torch.uint8)

    def round(self, step: int) -> int:
        self._group.recv([self._asked], 0, step).wait()
        self._group.send([self._values], 0, step).wait()
        return 0

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        del self._group
