"""Live hooks in a training job: the recorder, and what it writes beside the profiler's trace.

The room can be called: `with paceline.record("runs/a", steps=10): train()` records the training
inside the block. Its names load on first use: a recorded job imports this room, and needs no more
than torch and msgspec for it.
"""

from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any

from paceline.callable_room import callable_room


def record(
    folder: str | PathLike[str], steps: int = 10, plain: int = 5
) -> AbstractContextManager[Any]:
    """Record `steps` steady steps of the training in the block into `folder`."""
    from paceline.record.torch_job import recording

    return recording(Path(folder), steps, plain)


callable_room(__name__)
