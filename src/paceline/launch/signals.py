"""Signal handlers for the length of a block: what was there before is put back."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled(numbers: Iterable[int], handler: Handler) -> Iterator[None]:
    """Have the handler called for each signal that is not ignored. Python hears of signals in its
    main thread alone; in another one nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old if old is not None else signal.SIG_DFL)


@contextmanager
def unwinding() -> Iterator[None]:
    """A request to end unwinds `with` blocks, where the program does not decide otherwise."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    undecided = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    with handled(undecided, _exit):
        yield


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
