"""Starting a process under a supervisor, waiting for it, and ending it with all it started."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from paceline.launch.process import Process
from paceline.launch.signals import handled

SUPERVISOR = Path(__file__).parent / "supervisor.py"


@dataclass(frozen=True, eq=False)
class Running:
    """A started process. A context manager that ends it."""

    process: Process
    supervisor: "subprocess.Popen[bytes]"
    pipe: IO[bytes]  # the supervisor ends everything when it closes, also by our death

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """The exit code, negative for a signal's number; None where time was up before."""
        try:
            return self.supervisor.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def printed(self) -> tuple[str, str]:
        """What it wrote to its log, and to its errors; empty where those pass through."""
        files = (self.process.log, self.process.errors)
        output, errors = (file.read_text(errors="replace") if file else "" for file in files)
        return output, errors

    def send(self, number: int) -> None:
        """Send a signal to its process group."""
        self.supervisor.send_signal(number)

    def end(self) -> int:
        """Kill what still runs, and wait until it is gone."""
        self.pipe.close()
        return self.supervisor.wait()


def start(process: Process) -> Running:
    """Start it; it runs beside us."""
    process.require_command()
    theirs, ours = os.pipe()
    pipe = os.fdopen(ours, "wb")
    try:
        with ExitStack() as files:
            return Running(process, _supervised(process, theirs, files), pipe)
    except BaseException:
        pipe.close()
        raise
    finally:
        os.close(theirs)


def run(process: Process, timeout_s: float | None = None) -> int | None:
    """Run it to its end, and return its exit code; None where time was up and it was ended.

    A request to end, or an interrupt, goes on to the process, which decides for itself.
    """
    with start(process) as running:

        def forward(number: int, _: FrameType | None) -> None:
            running.send(number)

        with handled((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), forward):
            return running.wait(timeout_s)


def _supervised(process: Process, pipe: int, files: ExitStack) -> "subprocess.Popen[bytes]":
    own = [sys.executable, "-I", "-S", str(SUPERVISOR), str(pipe)]
    output = files.enter_context(process.log.open("wb")) if process.log else None
    errors = files.enter_context(process.errors.open("wb")) if process.errors else output
    return subprocess.Popen(
        [*own, *process.command],
        env=None if process.environment is None else dict(process.environment),
        cwd=process.folder,
        stdin=None if process.reads else subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        pass_fds=[pipe],
        start_new_session=True,  # a terminal's signals come once, through us
    )
