"""`Deferred`: the future of an imagined collective.

Nothing ever completes in a world that is not there. What a communication hook chains to a future
runs when somebody waits for it, so that decompression counts after the transfer, not at its start.
"""

from collections.abc import Callable
from typing import Any


class Deferred:
    """Has the face of `torch.futures.Future`."""

    def __init__(self, produce: Callable[[], Any]) -> None:
        self._produce = produce
        self._result: list[Any] = []

    def then(self, callback: Callable[["Deferred"], Any]) -> "Deferred":
        return Deferred(lambda: callback(self))

    def wait(self) -> Any:
        if not self._result:
            found = self._produce()
            self._result.append(found.wait() if hasattr(found, "wait") else found)
        return self._result[0]

    def value(self) -> Any:
        return self.wait()

    def done(self) -> bool:
        return True
