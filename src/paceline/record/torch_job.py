"""A recorder's life inside a process: started by `paceline record`'s environment or by a `with`.

However the process ends - normally, by an exception, by SIGTERM - the recording is closed first,
with the reason. Only SIGKILL leaves a sidecar without its last line. One of several workers then
waits a moment for gloo's threads, which else abort one in some dozens on a busy machine.
"""

import atexit
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from paceline.launch.torch_parting import outlast_gloo
from paceline.record.torch_recorder import Recorder, RecorderSettings

VARIABLE = "PACELINE_RECORD"
_open: list[Recorder] = []  # by a `with`


def is_recorded() -> bool:
    """Whether this process is: by its launcher, for all its life, or inside a `with`."""
    return VARIABLE in os.environ or bool(_open)


def start_from_environment() -> Recorder:
    """What the launcher's injected hook calls once torch is there."""
    given = json.loads(os.environ[VARIABLE])
    recorder = Recorder(
        RecorderSettings(
            folder=Path(given["folder"]),
            steps=given["steps"],
            plain=given["plain"],
            turns=given["turns"],
            command=tuple(given["command"]),
        )
    )
    recorder.install()
    _close_at_exit(recorder)
    return recorder


@contextmanager
def recording(settings: RecorderSettings) -> Iterator[Recorder]:
    """Record the training inside a `with` block."""
    recorder = Recorder(settings)
    recorder.install()
    _open.append(recorder)
    try:
        with _closing_on_death(recorder):
            yield recorder
    finally:
        _open.remove(recorder)


@contextmanager
def _closing_on_death(recorder: Recorder) -> Iterator[None]:
    previous = _on_terminate(recorder)
    try:
        yield
    except BaseException as error:
        recorder.finish("exception", f"{type(error).__name__}: {error}")
        raise
    finally:
        recorder.finish("short")
        signal.signal(signal.SIGTERM, previous)


def _close_at_exit(recorder: Recorder) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        atexit.register(outlast_gloo)  # behind what is registered after it
    atexit.register(recorder.finish, "short")
    _on_terminate(recorder)
    shown = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        recorder.finish("exception", f"{kind.__name__}: {error}")
        shown(kind, error, trace)

    sys.excepthook = note


def _on_terminate(recorder: Recorder) -> Any:
    """Close the recording on SIGTERM, then die of it as if nobody had listened."""
    previous = signal.getsignal(signal.SIGTERM)

    def terminate(number: int, frame: FrameType | None) -> None:
        recorder.finish("signal SIGTERM")
        if callable(previous):
            previous(number, frame)
            return
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    if previous is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, terminate)
    return previous
