"""Live hooks in a training job: the recorder, and what it writes beside the profiler's trace.

The room can be called: `with paceline.record("runs/a", steps=10): train()` records the training
inside the block. Its names load on first use: a recorded job imports this room, and needs no more
than torch and msgspec for it.
"""

import sys
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any


class Room(ModuleType):
    """This module, made callable."""

    def __call__(
        self, folder: str | PathLike[str], steps: int = 10, plain: int = 5
    ) -> AbstractContextManager[Any]:
        """Record `steps` steady steps of the training in the block into `folder`."""
        from paceline.record.torch_job import recording

        return recording(Path(folder), steps, plain)


sys.modules[__name__].__class__ = Room
