"""A worker's seat in a launcher: the worker is a child of the process that the launcher started.

Launchers end all workers when one dies. So what a launcher starts only sits there: the worker runs
below it, and where that is killed (by the kernel for want of memory, by a fault in a library) the
seat tells the others and stays well. Where the seat itself is killed, the launcher ends the run.
"""

import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from paceline.launch import Process, run
from paceline.learn.errors import LearnError

VARIABLE = "PACELINE_LEARN_SEAT"
CRASHED = 70
"""Exit code of a worker that an exception ended which nobody expected."""
PATIENCE_S = 120.0
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class WorkerPlace:
    """Where a worker stands among the others."""

    rank: int
    workers: int
    address: str
    port: int
    restarts: int = 0  # of all workers by the launcher
    patience_s: float = PATIENCE_S

    @staticmethod
    def of(environment: Mapping[str, str]) -> "WorkerPlace":
        missing = [name for name in _NEEDED if name not in environment]
        if missing:
            raise LearnError(
                f"several workers were asked for, and {', '.join(missing)} is not set; start them "
                "with torchrun --nproc-per-node N -m paceline learn run ..."
            )
        return WorkerPlace(
            int(environment["RANK"]),
            int(environment["WORLD_SIZE"]),
            environment["MASTER_ADDR"],
            int(environment["MASTER_PORT"]),
            int(environment.get("TORCHELASTIC_RESTART_COUNT", "0")),
        )


def seated(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the worker below this process; the exit code for the launcher."""
    place = WorkerPlace.of(environment)
    code = run(Process(tuple(command), {**environment, VARIABLE: "1"}))
    cause = cause_of(code or 0)
    if cause is None:
        return code or 0
    print(
        f"paceline: worker {place.rank} of {place.workers} died ({cause})",
        file=sys.stderr,
        flush=True,
    )
    from paceline.learn.torch_regroup import tell_death

    tell_death(place, cause)
    return 1 if place.rank == 0 else 0


def cause_of(code: int) -> str | None:
    """Why a worker with this exit code has died; None where it ended in order."""
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return "an exception" if code == CRASHED else None


def is_seated(environment: Mapping[str, str]) -> bool:
    return VARIABLE in environment


def crash_visibly() -> None:
    """An exception that nobody expected ends this process by a code of its own."""

    def told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace)
        sys.stderr.flush()
        os._exit(CRASHED)

    sys.excepthook = told
