"""What hosts say to each other, over one TCP connection for each that follows. All is signed."""

import hmac
import selectors
import socket
from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from paceline.tune.errors import TuneError
from paceline.tune.hosts.proof import SIGNED, Signed

OURS = ("PACELINE_", "KINETO_LOG_LEVEL", "TORCH_FR_BUFFER_SIZE")
"""Variables of a run that all its processes need, by how they begin. No others are taken from
another host."""
_AHEAD = 4  # bytes that tell the length of a message
_LONGEST = 256 << 20
_CHUNK = 1 << 20
_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A host that is gone without a word is missed after half a minute."""


class Said(msgspec.Struct, frozen=True, tag_field="is"):
    """One message."""


class Hello(Said, frozen=True, tag="hello"):
    """The first, of a host that follows."""

    host: str
    number: int | None
    command: list[str]
    version: str


class Refused(Said, frozen=True, tag="refused"):
    """The leader's answer to a host that it cannot take."""

    why: str


class Begin(Said, frozen=True, tag="begin"):
    """Start your part of the job. `variables` go into its environment; `root` stands in them for
    the folder of the loop, `folder` is the run's own below it."""

    folder: str
    root: str
    variables: dict[str, str]


class Wrote(Said, frozen=True, tag="wrote"):
    """What a rank wrote to a file below the loop's folder, from an offset on."""

    file: str
    offset: int
    data: bytes


class StopJob(Said, frozen=True, tag="enough"):
    """End your part of the job."""


class Ended(Said, frozen=True, tag="ended"):
    """It has ended, and all that it wrote was sent."""

    ending: str
    exit_code: int
    said: str


class Verdict(Said, frozen=True, tag="verdict"):
    """The last: the loop is over. `plan` is the file of the plan that is kept."""

    decision: str
    plan: bytes | None


Message = Hello | Refused | Begin | Wrote | StopJob | Ended | Verdict
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Message).decode


class Lost(Exception):
    """The other side is gone. It never leaves this room."""


class SignedConnection:
    """One TCP connection of the leader and a host that follows; every message is signed."""

    def __init__(self, connected: socket.socket, signed: Signed) -> None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE.items():
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        connected.settimeout(None)
        self._socket, self._signed, self._read = connected, signed, bytearray()

    def send(self, message: Said) -> None:
        data = _encode(message)
        ahead = len(data).to_bytes(_AHEAD, "big") + self._signed.mine.of(data)
        try:
            self._socket.sendall(ahead + data)
        except OSError as error:
            raise Lost(str(error)) from error

    def come(self, wait_s: float = 0.0) -> Iterator[Said]:
        """The messages that have come; where none has, within that time."""
        while self._ready(wait_s):
            wait_s = 0.0
            try:
                data = self._socket.recv(_CHUNK)
            except OSError as error:
                raise Lost(str(error)) from error
            if not data:
                raise Lost("the connection was closed")
            self._read += data
            yield from self._whole()

    def close(self) -> None:
        self._socket.close()

    def _ready(self, wait_s: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return bool(selector.select(wait_s))

    def _whole(self) -> Iterator[Said]:
        begin = _AHEAD + SIGNED
        while len(self._read) >= begin:
            size = int.from_bytes(self._read[:_AHEAD], "big")
            if size > _LONGEST:
                raise Lost(f"it sends a message of {size:,} bytes")
            if len(self._read) < begin + size:
                return
            signature = bytes(self._read[_AHEAD:begin])
            data = bytes(self._read[begin : begin + size])
            del self._read[: begin + size]
            if not hmac.compare_digest(signature, self._signed.theirs.of(data)):
                raise Lost("a message was changed on its way, or is not from it")
            try:
                yield _decode(data)
            except msgspec.DecodeError as error:
                raise Lost(f"it speaks otherwise: {error}") from error


def within(name: str) -> PurePosixPath:
    """A file or folder below the loop's folder, and nowhere else."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise TuneError(f"a host named the file {name}, which lies outside of the loop's folder")
    return path
