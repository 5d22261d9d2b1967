"""`first_of`: workers of one measurement over loopback, and what the first of them found."""

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from paceline.launch.process import LaunchError, Process
from paceline.launch.running import start

LIMIT_S = 120


def first_of(workers: int, module: str, *numbers: int) -> Any:
    """The JSON object that rank 0 prints. Each runs `python -m MODULE STORE RANK WORKERS NUMBERS`,
    where STORE is a file by which they find each other."""
    with tempfile.TemporaryDirectory(prefix="paceline-loopback-") as folder, ExitStack() as stack:
        first, *_ = [
            stack.enter_context(start(_worker(Path(folder), module, (rank, workers, *numbers))))
            for rank in range(workers)
        ]
        if first.wait(LIMIT_S) is None:
            raise LaunchError(
                f"no answer in {LIMIT_S} s; is the machine loaded, or the loopback interface down?"
            )
        answer, problem = first.printed()
    lines = [line for line in answer.splitlines() if line.startswith("{")]
    if not lines:  # with an answer it does not matter that gloo may abort in its shutdown
        raise LaunchError(f"a worker failed: {''.join(problem.strip().splitlines()[-1:])}")
    return json.loads(lines[-1])


def _worker(folder: Path, module: str, numbers: tuple[int, ...]) -> Process:
    return Process(
        (sys.executable, "-m", module, str(folder / "store"), *map(str, numbers)),
        {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        log=folder / f"worker-{numbers[0]}.txt",
        errors=folder / f"worker-{numbers[0]}.errors.txt",
    )
