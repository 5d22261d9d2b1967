"""Messages over a link: posted in one order by both ranks, sent and received as the kernel allows.

Nothing runs beside the caller: bytes move when something is posted or waited for.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from paceline.weave.backends.peer_link import PeerLink


class MessageQueue:
    """This rank's end of the exchange."""

    def __init__(self, link: PeerLink) -> None:
        self._link = link
        self._out = deque[memoryview]()  # what is still to be sent, message by message
        self._in = deque[memoryview]()  # and what is still to be received
        self._posted = 0

    def post(self, sent: Any, received: Any) -> int:
        """Send one tensor and expect another (contiguous, both untouched until they are through).
        Returns the number to wait for."""
        self._out.append(_bytes(sent))
        self._in.append(_bytes(received))
        self._posted += 1
        self._move()
        return self._posted

    def wait(self, number: int) -> None:
        """Until what message `number` expects was received."""
        while self._posted - len(self._in) < number:
            self._link.wait(to_send=bool(self._out), to_receive=True)
            self._move()

    def flush(self) -> None:
        """Until the kernel holds all that was posted."""
        while self._out:
            self._link.wait(to_send=True, to_receive=bool(self._in))
            self._move()

    def _move(self) -> None:
        while _moved(self._out, self._link.send) or _moved(self._in, self._link.receive):
            pass


def _moved(queue: deque[memoryview], step: Callable[[memoryview], int]) -> bool:
    """Whether any of the first message was moved; an empty one always is."""
    if not queue:
        return False
    count = step(queue[0]) if queue[0] else 0
    queue[0] = queue[0][count:]
    if queue[0]:
        return count > 0
    queue.popleft()
    return True


def _bytes(tensor: Any) -> memoryview:
    return memoryview(tensor.view(-1).view(torch.uint8).numpy())
