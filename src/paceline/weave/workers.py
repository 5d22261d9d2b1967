"""Predict or time a shipped program's schedules on workers of this machine.

Each worker is a process of its own (`torch_worker.py`); they meet over loopback, and all are ended
whatever happens.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from paceline.measure import Speeds
from paceline.weave.programs.shipped import ProgramSize
from paceline.weave.rules import WeaveError
from paceline.weave.tuning import TuningRow


@dataclass(frozen=True)
class WorkerRequest:
    """What the workers are asked: a shipped program, and whether its schedules are timed."""

    program: str
    size: ProgramSize = field(default_factory=ProgramSize)
    workers: int = 2
    is_timed: bool = False
    keep: int = 8  # candidates that are timed
    rounds: int = 12
    speeds: Speeds | None = None  # of the machine; without them the workers probe it

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> "WorkerRequest":
        given = json.loads(text)
        speeds = Speeds(**given["speeds"]) if given["speeds"] else None
        return WorkerRequest(**{**given, "size": ProgramSize(**given["size"]), "speeds": speeds})


def on_workers(request: WorkerRequest, *, limit_s: float = 600.0) -> tuple[TuningRow, ...]:
    """A row for each schedule on each back end with each setting."""
    with tempfile.TemporaryDirectory(prefix="paceline-weave-") as folder:
        started = [_start(request, rank, Path(folder)) for rank in range(request.workers)]
        try:
            answer = _answer(started, limit_s)
        finally:
            for process in started:
                process.kill()
                process.communicate()
    return tuple(TuningRow.from_document(row) for row in json.loads(answer))


def _start(request: WorkerRequest, rank: int, folder: Path) -> "subprocess.Popen[str]":
    module = "paceline.weave.torch_worker"
    return subprocess.Popen(
        [sys.executable, "-m", module, str(rank), str(folder / "meeting"), request.text()],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _answer(started: "Sequence[subprocess.Popen[str]]", limit_s: float) -> str:
    try:
        out, said = started[0].communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as late:
        raise WeaveError(
            f"the workers did not end in {limit_s:g} s; ask for a smaller program or fewer workers"
        ) from late
    if not out.strip():
        last = (said.strip().splitlines() or ["it said nothing"])[-1]
        raise WeaveError(f"worker 0 failed: {last}")
    return out
