"""Live hooks in a training job: the recorder, and what it writes beside the profiler's trace.

The room can be called: `with paceline.record("runs/a", steps=10): train()` records the training
inside the block. Its names load on first use: a recorded job imports this room, and needs no more
than torch, numpy and msgspec for it.
"""

from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any

from paceline.callable_room import callable_room


def record(
    folder: str | PathLike[str], steps: int = 10, plain: int = 5, *, turns: bool = False
) -> AbstractContextManager[Any]:
    """Record `steps` steady steps of the training in the block into `folder`; `turns`: a few at a
    time, in turn with the plain ones, for a machine on which others work."""
    from paceline.record.torch_job import recording
    from paceline.record.torch_recorder import RecorderSettings

    return recording(RecorderSettings(Path(folder), steps, plain, turns))


callable_room(__name__)
