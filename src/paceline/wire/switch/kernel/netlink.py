"""Puts a BPF program on a device's ingress or egress: one message to the kernel.

`tc` could do it only from an ELF file or a pinned program; both need more of the machine.
"""

import os
import socket
import struct
from enum import Enum

from paceline.wire.errors import WireError

_NEW_FILTER = 44
_REQUEST_ACK_CREATE_EXCLUSIVE = 0x1 | 0x4 | 0x400 | 0x200
_KIND, _OPTIONS, _NESTED = 1, 2, 0x8000
_FD, _NAME, _FLAGS = 6, 7, 8
_DIRECT_ACTION = 1
_ALL_PROTOCOLS, _FIRST = 0x0003, 1
_ERROR = 2


class Hook(Enum):
    """Of a device's clsact queueing discipline."""

    INGRESS = 0xFFFFFFF2
    EGRESS = 0xFFFFFFF3


def attach(device: str, hook: Hook, program: int, name: str) -> None:
    """The device needs a clsact discipline: `tc qdisc add dev DEVICE clsact`."""
    options = (
        _attribute(_FD, struct.pack("=I", program))
        + _attribute(_NAME, name.encode() + b"\0")
        + _attribute(_FLAGS, struct.pack("=I", _DIRECT_ACTION))
    )
    info = _FIRST << 16 | socket.htons(_ALL_PROTOCOLS)
    body = struct.pack("=BxxxiIII", 0, _index(device), 0, hook.value, info)
    body += _attribute(_KIND, b"bpf\0") + _attribute(_OPTIONS | _NESTED, options)
    code = _asked(_NEW_FILTER, body)
    if code:
        raise WireError(
            f"the kernel puts no program on {device}'s {hook.name.lower()}: {os.strerror(code)}. "
            f"It needs root and a clsact discipline: tc qdisc add dev {device} clsact"
        )


def _index(device: str) -> int:
    try:
        return socket.if_nametoindex(device)
    except OSError:
        raise WireError(f"there is no network device {device!r} here") from None


def _asked(message: int, body: bytes) -> int:
    """Send one request; the error's number, 0 where all is well."""
    header = struct.pack("=IHHII", 16 + len(body), message, _REQUEST_ACK_CREATE_EXCLUSIVE, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.bind((0, 0))
        link.send(header + body)
        answer = link.recv(65_536)
    kind, code = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
    return -code if kind == _ERROR else 0


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)
