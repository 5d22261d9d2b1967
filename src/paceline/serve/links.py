"""Messages over a socket, for a process that does one thing at a time."""

import socket

from paceline.serve.frames import LENGTHS, Message, packed, unpacked


def send(link: socket.socket, message: Message) -> None:
    for chunk in packed(message):
        link.sendall(chunk)


def receive(link: socket.socket) -> Message | None:
    """The next message; None where the other side has closed."""
    lengths = _exactly(link, LENGTHS.size)
    if lengths is None:
        return None
    header_length, body_length = LENGTHS.unpack(lengths)
    header, body = _exactly(link, header_length), _exactly(link, body_length)
    return None if header is None or body is None else unpacked(bytes(header), body)


def _exactly(link: socket.socket, count: int) -> bytearray | None:
    body = bytearray(count)
    view, at = memoryview(body), 0
    while at < count:
        try:
            got = link.recv_into(view[at:])
        except ConnectionError:
            return None
        if not got:
            return None
        at += got
    return body
