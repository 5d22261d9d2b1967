"""Start the workers of the all-reduce sweep on this machine, and end them whatever happens."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from paceline.cost.calibrate.result import Overlap, Sweep
from paceline.cost.errors import CostError

LIMIT_S = 120


def all_reduce(workers: int, repeats: int) -> tuple[Sweep, Overlap]:
    """Times of gloo's all-reduce among workers of this machine, and how overlap slows both."""
    with tempfile.TemporaryDirectory(prefix="paceline-calibrate-") as folder:
        started = [_start(Path(folder), rank, workers, repeats) for rank in range(workers)]
        try:
            answer = _answer(started)
        finally:
            for process in started:
                process.kill()
                process.wait()
    found = json.loads(answer)
    sweep = Sweep(tuple(found["sizes"]), tuple(found["times_ns"]))
    return sweep, Overlap(**found["overlap"])


def _start(folder: Path, rank: int, workers: int, repeats: int) -> "subprocess.Popen[str]":
    numbers = [str(rank), str(workers), str(repeats)]
    return subprocess.Popen(
        [sys.executable, "-m", "paceline.cost.calibrate.worker", str(folder / "store"), *numbers],
        env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
        stderr=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
        text=True,
    )


def _answer(started: "list[subprocess.Popen[str]]") -> str:
    try:
        out, problem = started[0].communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired as late:
        raise CostError(
            f"the all-reduce sweep did not end in {LIMIT_S} s; is the machine loaded, or the "
            "loopback interface down? Try --workers 1 to leave it out."
        ) from late
    if not out.strip():  # with an answer it does not matter that gloo may abort in its shutdown
        raise CostError(f"a calibration worker failed: {problem.strip().splitlines()[-1:]}")
    return out
