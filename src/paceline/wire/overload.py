"""One process of an overload: rank 0 receives, each other rank offers one stream of datagrams.

    RANK=0 python -m paceline.wire.overload FILE      # the file says which streams, for how long

A datagram carries the time at which it was sent; the receiver's kernel says when it came, so that
delays are those of the network and not of a process that waits for a core.
"""

import json
import math
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from paceline.wire.switch.ports import FRAME_BYTES

DATAGRAM_BYTES = 1472
BURST = 8
"""Datagrams that a sender that was late may send at once; else it would flood its own queue."""
_HEAD = struct.Struct("<BQ")  # who, when (ns, real time)
_SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Stream:
    """Datagrams of one class of service, frames counted whole."""

    tos: int
    bits_per_s: float


@dataclass(frozen=True)
class Overload:
    streams: tuple[Stream, ...]  # of ranks 1, 2, ...
    seconds: float
    port: int = 29_800


@dataclass(frozen=True)
class Carried:
    """What became of a stream."""

    sent: int
    got: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    seconds: float  # that its sender took

    @property
    def lost_share(self) -> float:
        return 1 - self.got / self.sent

    @property
    def offered_bits_per_s(self) -> float:
        return self.sent * 8 * (DATAGRAM_BYTES + FRAME_BYTES) / self.seconds


def to_json(load: Overload) -> str:
    return json.dumps(asdict(load))


def from_json(text: str) -> Overload:
    told = json.loads(text)
    return Overload(tuple(Stream(**s) for s in told.pop("streams")), **told)


def carried_from_json(text: str) -> list[Carried]:
    return [Carried(**one) for one in json.loads(text)]


def main(file: str) -> None:
    load, rank = from_json(Path(file).read_text()), int(os.environ["RANK"])
    if rank == 0:
        print(json.dumps([asdict(one) for one in receive(load)]))
    else:
        offer(load, rank, os.environ["MASTER_ADDR"])


def receive(load: Overload) -> list[Carried]:
    """All senders start together; the receiver ends once each has told what it sent."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.create_server(("", load.port), backlog=len(load.streams)) as server,
    ):
        udp.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
        udp.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        udp.bind(("", load.port))
        server.settimeout(_PATIENCE_S)
        links = [server.accept()[0] for _ in load.streams]
        for link in links:
            link.sendall(b"g")
        delays = _delays(udp, len(links), load.seconds)
        told = dict(_told(link) for link in links)
    return [_carried(*told[rank], delays[rank]) for rank in sorted(told)]


def _delays(udp: socket.socket, streams: int, seconds: float) -> dict[int, list[int]]:
    """Of each rank's datagrams, until none comes any more."""
    found: dict[int, list[int]] = {rank: [] for rank in range(1, streams + 1)}
    end = time.monotonic() + seconds
    while select.select([udp], (), (), max(0.5, end - time.monotonic()))[0]:
        data, words, _, _ = udp.recvmsg(2048, 64)
        rank, sent_ns = _HEAD.unpack_from(data)
        found[rank].append(_stamp_ns(words) - sent_ns)
    return found


def _stamp_ns(words: Iterable[tuple[int, int, bytes]]) -> int:
    for level, kind, data in words:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, ns = struct.unpack_from("<qq", data)
            return int(seconds * 1_000_000_000 + ns)
    raise OSError("the kernel gave a datagram no time; Linux does since 2.6.22")


def _told(link: socket.socket) -> tuple[int, tuple[int, float]]:
    with link, link.makefile() as lines:
        rank, sent, seconds = lines.readline().split()
    return int(rank), (int(sent), float(seconds))


def _carried(sent: int, seconds: float, delays: Sequence[int]) -> Carried:
    ordered = sorted(delays) or [0]
    p50, p99 = (ordered[max(0, math.ceil(q * len(ordered)) - 1)] for q in (0.5, 0.99))
    return Carried(sent, len(delays), p50, p99, ordered[-1], seconds)


def offer(load: Overload, rank: int, receiver: str) -> None:
    stream = load.streams[rank - 1]
    gap_s = 8 * (DATAGRAM_BYTES + FRAME_BYTES) / stream.bits_per_s
    with _connected(receiver, load.port) as link, socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, stream.tos)
        udp.connect((receiver, load.port))
        link.recv(1)
        count, due, began = 0, time.monotonic(), time.monotonic()
        while (now := time.monotonic()) < began + load.seconds:
            due = max(due, now - BURST * gap_s)
            while due <= now:
                udp.send(_HEAD.pack(rank, time.time_ns()).ljust(DATAGRAM_BYTES, b"\0"))
                count, due = count + 1, due + gap_s
            time.sleep(0.0005)
        link.sendall(f"{rank} {count} {time.monotonic() - began}\n".encode())
        link.recv(1)


def _connected(host: str, port: int) -> socket.socket:
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1])
