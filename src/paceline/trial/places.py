"""Where a job runs whose end we do not wait for: on this machine, or on every worker of a lab.

A job has done enough when its ranks have written what was asked for; it is then ended, as it is
when it hangs, when time is up and when we are interrupted: nothing of it stays behind.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from paceline.cluster import Cluster
from paceline.lab import Lab, WorkerError
from paceline.lab.launch import tail
from paceline.launch import Process, Running, start
from paceline.verify.proof import without_placement

TICK_S = 0.1
PATIENCE_S = 5.0  # for a job that was asked to end


class Ending(Enum):
    """How a job's run ended."""

    ENOUGH = "enough"
    HUNG = "hung"  # it wrote nothing more
    ITSELF = "itself"


@dataclass(frozen=True)
class Ran:
    """A job's run. `said` is the end of what it printed, where it failed."""

    ending: Ending
    exit_code: int = 0
    said: str = ""


@dataclass(frozen=True)
class Watching:
    """What is asked of a running job, a few times a second."""

    enough: Callable[[], bool]
    hangs: Callable[[], bool]
    limit_s: float


Place = Callable[[Process, Watching], Ran]
"""Runs a job; its process's log keeps what it prints."""


def here(process: Process, watching: Watching) -> Ran:
    """On this machine."""
    with start(process) as running:
        ending = _watched(running, watching)
        if ending is Ending.ENOUGH:
            _asked_to_end(running)
            return Ran(ending)
        if ending is Ending.HUNG:
            return Ran(ending, said=_end_of(process))
        code = running.wait() or 0
    return Ran(ending, 128 - code if code < 0 else code, _end_of(process) if code else "")


def in_lab(cluster: Cluster) -> Place:
    """In a lab of the cluster, which stands as long as the job."""

    def run(process: Process, watching: Watching) -> Ran:
        hung: list[bool] = []

        def enough() -> bool:
            if watching.hangs():
                hung.append(True)
            return bool(hung) or watching.enough()

        given = process.environment or {}
        own = {name: value for name, value in given.items() if os.environ.get(name) != value}
        logs = process.log.parent if process.log else Path.cwd()
        try:
            with Lab(cluster, f"tune-{os.getpid()}") as lab:
                lab.run(
                    without_placement(process.command),
                    timeout_s=watching.limit_s,
                    environment=own,
                    logs=logs / process.log.stem if process.log else logs,
                    enough=enough,
                )
        except WorkerError as error:
            return Ran(Ending.ITSELF, 1, str(error))
        if hung:
            return Ran(Ending.HUNG)
        return Ran(Ending.ENOUGH if watching.enough() else Ending.ITSELF)

    return run


def logged(process: Process, log: Path) -> Process:
    """What it prints goes to a file, and it reads nothing."""
    log.parent.mkdir(parents=True, exist_ok=True)
    return replace(process, log=log, reads=False)


def _watched(running: Running, watching: Watching) -> Ending:
    end = time.monotonic() + watching.limit_s
    while running.wait(TICK_S) is None:
        if watching.enough():
            return Ending.ENOUGH
        if watching.hangs() or time.monotonic() > end:
            return Ending.HUNG
    return Ending.ITSELF


def _asked_to_end(running: Running) -> None:
    """What does not go is killed with the block."""
    with suppress(ProcessLookupError):
        running.send(signal.SIGTERM)
    running.wait(PATIENCE_S)


def _end_of(process: Process) -> str:
    return tail(process.log) if process.log else ""
