"""Hosts prove that they share a secret, and sign all that they say to each other afterwards.

Each side draws a number for the connection. Of the secret and both numbers they make keys that hold
for this connection alone; the host that follows proves first that it has them. A message is signed
with its place in the order, so that none can be changed, left out, doubled or sent back. Nothing is
encrypted: who sees the network reads what ranks write.
"""

import hmac
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from secrets import token_bytes

SECRET = "PACELINE_SECRET"
"""The variable by which hosts are given what strangers do not know."""
PATIENCE_S = 5.0
"""For the other side's part. Who says nothing keeps others waiting no longer."""
SIGNED = 32
"""Bytes of a signature or a proof."""
_GREETING = b"paceline tune 1\n"
_DRAWN = 32

_digest: Callable[..., "blake2b"] = partial(blake2b, digest_size=SIGNED)


class Stranger(Exception):
    """The other side does not share the secret. It never leaves this room."""


@dataclass(eq=False)
class Signing:
    """Of what one side says."""

    key: bytes
    count: int = 0

    def of(self, message: bytes) -> bytes:
        """The signature of the next message."""
        made = _digest(self.count.to_bytes(8, "big"), key=self.key)
        made.update(message)
        self.count += 1
        return made.digest()


@dataclass(frozen=True, eq=False)
class Signed:
    """Of both sides."""

    mine: Signing
    theirs: Signing


def key_of(shared: str) -> bytes:
    """The key that a secret stands for."""
    return blake2b(shared.encode()).digest()


def proved(connected: socket.socket, key: bytes, *, leads: bool) -> Signed:
    """Both sides have the key; else `Stranger`. `leads`: this side does."""
    try:
        return _proved(connected, key, leads)
    except TimeoutError:
        raise Stranger(f"it said nothing for {PATIENCE_S:.0f} s") from None
    except OSError as error:
        raise Stranger(str(error)) from error


def _proved(connected: socket.socket, key: bytes, leads: bool) -> Signed:
    read = partial(_read, connected, time.monotonic() + PATIENCE_S)
    mine = token_bytes(_DRAWN)
    connected.sendall(_GREETING + mine)
    if read(len(_GREETING)) != _GREETING:
        raise Stranger("it is no `paceline tune` of this version")
    theirs = read(_DRAWN)
    drawn = mine + theirs if leads else theirs + mine
    session = _digest(drawn, key=key).digest()
    me, other = (b"leads", b"follows") if leads else (b"follows", b"leads")
    if not leads:
        connected.sendall(_made(session, me, b"proof"))
    if not hmac.compare_digest(read(SIGNED), _made(session, other, b"proof")):
        raise Stranger("it does not know the secret")
    if leads:
        connected.sendall(_made(session, me, b"proof"))
    return Signed(*(Signing(_made(session, side, b"words")) for side in (me, other)))


def _made(session: bytes, side: bytes, use: bytes) -> bytes:
    return _digest(side + b" " + use, key=session).digest()


def _read(connected: socket.socket, end_s: float, count: int) -> bytes:
    found = b""
    while len(found) < count:
        connected.settimeout(max(0.001, end_s - time.monotonic()))
        data = connected.recv(count - len(found))
        if not data:
            raise Stranger("it closed the connection")
        found += data
    return found
