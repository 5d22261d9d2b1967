"""A TCP connection of our own between two ranks, moved on by the thread that computes.

gloo's own threads wake for every piece that arrives or fits, and where each worker has one core
they take it from the product. Here what is on its way lies in the kernel's socket buffers, which
are made large enough for it; the computing thread hands over a chunk when it is done and adds what
has come, and nobody else wakes up.
"""

import fcntl
import logging
import os
import secrets
import select
import socket
import struct
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from paceline.weave.rules import WeaveError

log = logging.getLogger("paceline.weave")

BUFFER_BYTES = 8 << 20
"""Of the kernel, each way: a few chunks."""

_ADDRESS_OF = 0x8915  # SIOCGIFADDR
_TOKEN_BYTES = 16
_MEETING_S = 5.0
_STRANGERS = 16


class Cable:
    """This rank's end. Both ranks of the group make theirs together.

    `with cable:` around one exchange closes it where the exchange is left with an error: its bytes
    no longer stand where the other rank believes, and a later exchange would add wrong ones.
    """

    def __init__(self, socket_: socket.socket, peer: int, timeout_s: float) -> None:
        self._socket, self._peer, self._timeout_s = socket_, peer, timeout_s
        self._socket.setblocking(False)
        self._poll = select.poll()

    def __enter__(self) -> "Cable":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any
    ) -> None:
        if kind is not None:
            self.close()

    def send(self, data: memoryview) -> int:
        """As many bytes as the kernel takes now."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(str(error)) from None

    def receive(self, room: memoryview) -> int:
        """As many bytes as are there and fit; 0 where there are none."""
        try:
            count = self._socket.recv_into(room)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(str(error)) from None
        if not count:
            raise self._lost("it has closed the connection")
        return count

    def wait(self, *, to_send: bool, to_come: bool) -> None:
        """Until bytes can go, or have come, where either is wished for."""
        wish = (select.POLLOUT if to_send else 0) | (select.POLLIN if to_come else 0)
        self._poll.register(self._socket, wish)
        if not self._poll.poll(1e3 * self._timeout_s):
            raise self._lost(f"nothing moved for {self._timeout_s:g} s")

    def close(self) -> None:
        self._socket.close()

    def _lost(self, reason: str) -> WeaveError:
        return WeaveError(f"rank {self._peer} is lost in the middle of a chunk: {reason}")


def lay(group: Any, *, timeout_s: float = 60.0) -> Cable | None:
    """A cable between the two ranks of a group, or None on both where they cannot reach each
    other directly (the log says why), or where what they send does not lie in host memory."""
    if dist.get_backend(group) != "gloo":
        return None
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    here = dist.get_rank(group)
    listening, where = _listen() if here == 0 else (None, None)
    box: list[Any] = [where]
    dist.broadcast_object_list(box, src=ranks[0], group=group)
    end, reason = _connected(box[0]) if here == 1 else (None, "")
    if not (problem := _problem(reason, group)) and listening is not None:
        end, reason = _accepted(listening, box[0])  # it waits in the queue already
    problem = problem or _problem(reason, group)
    if listening is not None:
        listening.close()
    if end is not None and not problem:
        return Cable(_ready(end), ranks[1 - here], timeout_s)
    if end is not None:
        end.close()
    log.warning("chunks go through gloo: %s", problem)
    return None


def _problem(reason: str, group: Any) -> str:
    """What went wrong on either rank."""
    reasons: list[Any] = [None, None]
    dist.all_gather_object(reasons, reason, group=group)
    return next((r for r in reasons if r), "")


@dataclass(frozen=True)
class _Where:
    """Where rank 0 listens, and the word by which it knows the other; or why it does not."""

    address: tuple[str, int] = ("", 0)
    token: bytes = b""
    reason: str = ""


def _listen() -> tuple[socket.socket | None, _Where]:
    listening = socket.socket()
    _widen(listening)
    try:
        listening.bind((own_address(), 0))
        listening.listen(4)
    except OSError as error:
        listening.close()
        return None, _Where(reason=f"rank 0 of the group cannot listen: {error}")
    return listening, _Where(listening.getsockname(), secrets.token_bytes(_TOKEN_BYTES))


_End = tuple[socket.socket | None, str]
"""A connected socket, or why there is none."""


def _connected(where: _Where) -> _End:
    if where.reason:
        return None, where.reason
    end = socket.socket()
    _widen(end)
    end.settimeout(_MEETING_S)
    try:
        end.connect(where.address)
        end.sendall(where.token)
    except OSError as error:
        end.close()
        return None, f"{where.address[0]} cannot be reached: {error}"
    return end, ""


def _accepted(listening: socket.socket, where: _Where) -> _End:
    """The one who knows the token; strangers are turned away."""
    listening.settimeout(_MEETING_S)
    for _ in range(_STRANGERS):
        try:
            end, _address = listening.accept()
            end.settimeout(_MEETING_S)
            if secrets.compare_digest(end.recv(_TOKEN_BYTES, socket.MSG_WAITALL), where.token):
                return end, ""
        except OSError as error:
            return None, f"nobody came to {where.address[0]}: {error}"
        end.close()
    return None, f"only strangers came to {where.address[0]}"


def _ready(end: socket.socket) -> socket.socket:
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


def _widen(end: socket.socket) -> None:
    """Larger buffers where the kernel grants them; else its own, which grow as needed."""
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
            granted = probe.getsockopt(socket.SOL_SOCKET, option)
        if granted >= BUFFER_BYTES:
            end.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)


def own_address() -> str:
    """Where the other rank reaches this one: gloo's interface, else the way to the master, else
    this host's name."""
    if name := os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            wish = struct.pack("256s", name.encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(any_socket, _ADDRESS_OF, wish)[20:24])
    if master := os.environ.get("MASTER_ADDR"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            any_socket.connect((master, int(os.environ.get("MASTER_PORT", "1"))))
            address: str = any_socket.getsockname()[0]
            return address
    return socket.gethostbyname(socket.gethostname())
