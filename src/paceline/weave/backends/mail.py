"""Messages over a cable: posted in one order by both ranks, sent and received as the kernel allows.

Nothing runs beside the caller: bytes move when something is posted or waited for.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch

from paceline.weave.backends.cable import Cable


@dataclass
class _Message:
    """Bytes that are still to be sent, or still to come."""

    left: memoryview
    number: int = 0


class Mail:
    """This rank's end of the exchange."""

    def __init__(self, cable: Cable) -> None:
        self._cable = cable
        self._out: deque[_Message] = deque()
        self._in: deque[_Message] = deque()
        self._posted = self._arrived = 0

    def post(self, going: Any, coming: Any) -> int:
        """Send one tensor and expect another (contiguous, both untouched until they are through).
        Returns the number to wait for."""
        self._posted += 1
        for queue, tensor in ((self._out, going), (self._in, coming)):
            queue.append(_Message(_bytes(tensor), self._posted))
        self._move()
        return self._posted

    def wait(self, number: int) -> None:
        """Until what message `number` expects has come."""
        while self._arrived < number:
            self._cable.wait(to_send=bool(self._out), to_come=True)
            self._move()

    def flush(self) -> None:
        """Until the kernel holds all that was posted."""
        while self._out:
            self._cable.wait(to_send=True, to_come=bool(self._in))
            self._move()

    def _move(self) -> None:
        while self._send() or self._receive():
            pass

    def _send(self) -> bool:
        """Whether anything moved; an empty message takes no bytes."""
        if not self._out:
            return False
        message = self._out[0]
        count = self._cable.send(message.left) if message.left else 0
        message.left = message.left[count:]
        if message.left:
            return count > 0
        self._out.popleft()
        return True

    def _receive(self) -> bool:
        if not self._in:
            return False
        message = self._in[0]
        count = self._cable.receive(message.left) if message.left else 0
        message.left = message.left[count:]
        if message.left:
            return count > 0
        self._in.popleft()
        self._arrived = message.number
        return True


def _bytes(tensor: Any) -> memoryview:
    return memoryview(tensor.view(-1).view(torch.uint8).numpy())
