"""`PeerLink`: a TCP connection between two ranks, served by the thread that computes.

gloo's own threads wake for every piece that arrives or fits, and where each worker has one core
they take it from the product. Here bytes in flight lie in the kernel's socket buffers, which are
made large enough for them; the computing thread sends a chunk when it is done and adds what was
received, and no other thread wakes up.
"""

import fcntl
import logging
import secrets
import select
import socket
import struct
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from paceline.weave.host import HostSettings
from paceline.weave.rules import WeaveError

log = logging.getLogger("paceline.weave")

BUFFER_BYTES = 8 << 20
"""Of the kernel, each direction: a few chunks."""

_ADDRESS_OF = 0x8915  # SIOCGIFADDR
_TOKEN_BYTES = 16
_CONNECT_S = 5.0
_MOST_ATTEMPTS = 16


class PeerLink:
    """This rank's end. Both ranks of the group make theirs together.

    `with link:` around one exchange closes it where the exchange is left with an error: its bytes
    are no longer where the other rank expects them, and a later exchange would add wrong ones.
    """

    def __init__(self, socket_: socket.socket, peer: int, timeout_s: float) -> None:
        self._socket, self._peer, self._timeout_s = socket_, peer, timeout_s
        self._socket.setblocking(False)
        self._poll = select.poll()

    def __enter__(self) -> "PeerLink":
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

    def wait(self, *, to_send: bool, to_receive: bool) -> None:
        """Until bytes can be sent, or are there to be received, whichever is asked for."""
        events = (select.POLLOUT if to_send else 0) | (select.POLLIN if to_receive else 0)
        self._poll.register(self._socket, events)
        if not self._poll.poll(1e3 * self._timeout_s):
            raise self._lost(f"nothing moved for {self._timeout_s:g} s")

    def close(self) -> None:
        self._socket.close()

    def _lost(self, reason: str) -> WeaveError:
        return WeaveError(f"rank {self._peer} is lost in the middle of a chunk: {reason}")


def connect(group: Any, host: HostSettings, *, timeout_s: float = 60.0) -> PeerLink | None:
    """A link between the two ranks of a group, or None on both where they cannot reach each
    other directly (the log says why), or where what they send does not lie in host memory."""
    if dist.get_backend(group) != "gloo":
        return None
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    here = dist.get_rank(group)
    listening, endpoint = _listen(host) if here == 0 else (None, None)
    box: list[Any] = [endpoint]
    dist.broadcast_object_list(box, src=ranks[0], group=group)
    end, reason = _connected(box[0]) if here == 1 else (None, "")
    if not (problem := _problem(reason, group)) and listening is not None:
        end, reason = _accepted(listening, box[0])  # the connection waits in the queue already
    problem = problem or _problem(reason, group)
    if listening is not None:
        listening.close()
    if end is not None and not problem:
        return PeerLink(_ready(end), ranks[1 - here], timeout_s)
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
class _Endpoint:
    """Where rank 0 listens, and the token by which it knows the other; or why it does not."""

    address: tuple[str, int] = ("", 0)
    token: bytes = b""
    reason: str = ""


def _listen(host: HostSettings) -> tuple[socket.socket | None, _Endpoint]:
    listening = socket.socket()
    _widen(listening)
    try:
        listening.bind((own_address(host), 0))
        listening.listen(4)
    except OSError as error:
        listening.close()
        return None, _Endpoint(reason=f"rank 0 of the group cannot listen: {error}")
    return listening, _Endpoint(listening.getsockname(), secrets.token_bytes(_TOKEN_BYTES))


_Connection = tuple[socket.socket | None, str]
"""A connected socket, or why there is none."""


def _connected(endpoint: _Endpoint) -> _Connection:
    if endpoint.reason:
        return None, endpoint.reason
    end = socket.socket()
    _widen(end)
    end.settimeout(_CONNECT_S)
    try:
        end.connect(endpoint.address)
        end.sendall(endpoint.token)
    except OSError as error:
        end.close()
        return None, f"{endpoint.address[0]} cannot be reached: {error}"
    return end, ""


def _accepted(listening: socket.socket, endpoint: _Endpoint) -> _Connection:
    """A connection that sends the token; others are closed."""
    listening.settimeout(_CONNECT_S)
    for _ in range(_MOST_ATTEMPTS):
        try:
            end, _address = listening.accept()
            end.settimeout(_CONNECT_S)
            if secrets.compare_digest(end.recv(_TOKEN_BYTES, socket.MSG_WAITALL), endpoint.token):
                return end, ""
        except OSError as error:
            return None, f"no rank connected to {endpoint.address[0]}: {error}"
        end.close()
    return None, f"only unknown processes connected to {endpoint.address[0]}"


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


def own_address(host: HostSettings) -> str:
    """Where the other rank reaches this one: gloo's interface, else the route to the master, else
    this host's name."""
    if host.interface:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            request = struct.pack("256s", host.interface.encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(any_socket, _ADDRESS_OF, request)[20:24])
    if host.master is not None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            any_socket.connect(host.master)
            address: str = any_socket.getsockname()[0]
            return address
    return socket.gethostbyname(socket.gethostname())
