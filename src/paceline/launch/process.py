"""`Process`: what to start, with which environment, and where its output goes."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import PacelineError


class LaunchError(PacelineError):
    """A command cannot be started."""


@dataclass(frozen=True)
class Process:
    """One process to start; what it starts in turn ends with it."""

    command: tuple[str, ...]
    environment: Mapping[str, str] | None = None  # None: ours
    folder: Path | None = None  # None: ours
    log: Path | None = None  # holds what it prints; None: that passes through
    errors: Path | None = None  # holds its standard error; None: that goes where its output goes
    reads: bool = False  # whether it may read our standard input

    def require_command(self) -> None:
        """An error where the command's file is not there or may not be run."""
        name = self.command[0]
        given = os.environ if self.environment is None else self.environment
        from_there = os.path.dirname(name) and self.folder is not None
        sought = str(self.folder / name) if from_there and self.folder is not None else name
        if shutil.which(sought, path=given.get("PATH")) is None:
            raise LaunchError(
                f"cannot start {name!r}: no such program, or it may not be run. "
                "Give its full path, or look at PATH"
            )
