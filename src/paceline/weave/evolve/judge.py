"""`Judge`: the second and third gate. Is a variant right, and how long does it take?

`LiveJudge` asks sandboxed worker processes, which may crash or hang: a worker that does not answer
in time is killed with its group, the variant is judged wrong, and fresh workers are started.
"""

import os
import socket
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from paceline.weave.evolve.edits import Variant
from paceline.weave.program import Program
from paceline.weave.rules import WeaveError


@dataclass(frozen=True)
class Case:
    """A held-out input: the program as written at some shape, the variant at that shape, a seed,
    and whether NaN and infinities are among the values."""

    written: Program
    variant: Variant
    seed: int
    odd: bool


@dataclass(frozen=True)
class Judged:
    """What the gates said of one genome: wrong for a reason, or its time over the baseline's."""

    ratio: float | None = None
    reason: str = ""


class Judge(ABC):
    """The gates after typing."""

    @abstractmethod
    def wrong(self, cases: Sequence[Case]) -> str | None:
        """Why the variant differs from the program as written, or None where it is equal."""

    @abstractmethod
    def times(self, variants: Sequence[Variant], rounds: int) -> list[list[float]]:
        """Seconds of each variant in each round, run in turn."""


class LiveJudge(Judge):
    """Real workers of one back end, in processes of their own. A context manager."""

    def __init__(self, backend: str, ranks: int, *, timeout_s: float = 30.0) -> None:
        self._backend, self._ranks, self._timeout_s = backend, ranks, timeout_s
        self._workers: list[subprocess.Popen[bytes]] = []
        self._lines: list[Connection] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> "LiveJudge":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def wrong(self, cases: Sequence[Case]) -> str | None:
        answers = self._ask("check", list(cases))
        if isinstance(answers, str):
            return answers
        return next((a for a in answers if a is not None), None)

    def times(self, variants: Sequence[Variant], rounds: int) -> list[list[float]]:
        answers = self._ask("time", (list(variants), rounds))
        if isinstance(answers, str):
            raise WeaveError(f"timing failed: {answers}")
        found: list[list[float]] = answers[0]
        return found

    def _ask(self, what: str, value: Any) -> list[Any] | str:
        """Every worker's answer, or why there is none."""
        if not self._workers:
            self._start()
        try:
            for line in self._lines:
                line.send((what, value))
            return [self._answer(line) for line in self._lines]
        except (EOFError, OSError) as error:
            codes = [w.poll() for w in self._workers]
            self._end()
            return f"a sandboxed worker ended ({error or 'no word'}, exit codes {codes})"
        except TimeoutError:
            self._end()
            return f"no answer within {self._timeout_s:g} s; killed"

    def _answer(self, line: Connection) -> Any:
        if not line.poll(self._timeout_s):
            raise TimeoutError
        return line.recv()

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="paceline-evolve-")
        for rank in range(self._ranks):
            ours, theirs = socket.socketpair()
            command = [sys.executable, "-m", "paceline.weave.evolve.sandbox", self._backend]
            command += [str(rank), str(self._ranks), self._folder.name, str(theirs.fileno())]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            self._workers.append(
                subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
            )
            theirs.close()
            self._lines.append(Connection(ours.detach()))

    def _end(self) -> None:
        for line in self._lines:
            line.close()
        for worker in self._workers:
            worker.kill()
            worker.wait()
        if self._folder is not None:
            self._folder.cleanup()
        self._workers, self._lines, self._folder = [], [], None
