"""Answers of commands that run in a process of their own: long ones, and those that start jobs."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from paceline.errors import PacelineError

_SAID: Final = 2_000  # characters of a failed command's last words


class CommandError(PacelineError):
    """A command that ended badly, with its last words."""


@dataclass(frozen=True)
class Answered:
    """What a command printed as JSON."""

    command: list[str]
    data: dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """A job that was run and recorded."""

    run: str
    said: str  # the end of what it printed


def searched(run: str, cluster: str = "", allow: str = "exact", budget: str = "30s") -> Answered:
    """The plan that makes a recorded job fastest on a cluster (a YAML file); `allow` is the least
    exact effect that it may have: exact, lossy or relaxed."""
    where = ["--cluster", cluster] if cluster else []
    return _answered("search", "--allow", allow, "--budget", budget, *where, "--", run)


def remembered(job: str = "", strategy: str = "") -> Answered:
    """What was recorded, predicted and measured before, newest first; `job` is a part of its
    command."""
    given = [*(["--job", job] if job else []), *(["--strategy", strategy] if strategy else [])]
    return _answered("history", *given)


def recorded(command: list[str], folder: str) -> Recorded:
    """Run a training command and record it into a folder."""
    ended = _run("record", "-o", folder, "--", *command)
    return Recorded(folder, (ended.stdout + ended.stderr)[-_SAID:])


def _answered(name: str, *words: str) -> Answered:
    ended = _run(name, "--json", *words)
    found = json.loads(ended.stdout)
    return Answered([name, *words], found if isinstance(found, dict) else {"rows": found})


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    """Nothing of it reaches our own output, which is the protocol's."""
    line: Sequence[str] = (sys.executable, "-m", "paceline", *words)
    ended = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ended.returncode:
        said = (ended.stdout + ended.stderr)[-_SAID:].strip()
        raise CommandError(f"`paceline {' '.join(words)}` ended with {ended.returncode}: {said}")
    return ended
