"""`handling`: what messages take of a worker's processor, measured between processes here.

Two workers and then four carry messages over loopback, each time behind a rest and a step of a
small network, as the workers of a run do. Then all of them take such steps behind rests, which cost
processor time against the same steps of one worker in a row. What a lab adds (shaped queues, its
switch) is not in it.
"""

import json
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from paceline.launch import Process, Running, start
from paceline.learn.errors import LearnError
from paceline.measure.handling import Handled, Handling, fitted, sending, summing

GROUPS = (2, 4)
LIMIT_S = 120


def handling(turns: int = 24) -> Handling:
    """Fitted to the medians of so many turns."""
    found = {workers: _measured(workers, turns) for workers in GROUPS}
    handled = [each for workers, told in found.items() for each in _handled(workers, told)]
    return fitted(handled, statistics.mean(max(0.0, told["cold"]) for told in found.values()))


def _measured(workers: int, turns: int) -> Any:
    """What the first of so many workers found."""
    with tempfile.TemporaryDirectory(prefix="paceline-handling-") as folder, ExitStack() as stack:
        started = [
            stack.enter_context(start(_worker(Path(folder), rank, workers, turns)))
            for rank in range(workers)
        ]
        return _answer(started[0])


def _handled(workers: int, found: Any) -> list[Handled]:
    sent = [sending(workers, each["messages"], each["size"], each["ns"]) for each in found["sent"]]
    return sent + [summing(workers, each["size"], each["ns"]) for each in found["summed"]]


def _worker(folder: Path, rank: int, workers: int, turns: int) -> Process:
    numbers = (str(rank), str(workers), str(turns))
    return Process(
        (sys.executable, "-m", "paceline.learn.torch_handling", str(folder / "store"), *numbers),
        {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        log=folder / f"worker-{rank}.txt",
        errors=folder / f"worker-{rank}.errors.txt",
    )


def _answer(first: Running) -> Any:
    """What the first worker prints."""
    if first.wait(LIMIT_S) is None:
        raise LearnError(
            f"messages were not carried in {LIMIT_S} s; is the machine loaded, or the loopback "
            "interface down?"
        )
    answer, problem = first.printed()
    lines = [line for line in answer.splitlines() if line.startswith('{"sent"')]
    if not lines:
        said = problem.strip().splitlines()[-1:]
        raise LearnError(f"a worker that was to carry messages failed: {said}")
    return json.loads(lines[-1])
