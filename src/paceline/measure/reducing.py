"""Start the workers of the all-reduce sweep on this machine, and end them whatever happens."""

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from paceline.graph.kinds import DType
from paceline.launch import Process, Running, start
from paceline.measure.calibration import Overlap, Sweep
from paceline.measure.codec_times import Adding
from paceline.measure.errors import MeasureError

LIMIT_S = 120


@dataclass(frozen=True)
class Reduced:
    """Times of gloo's all-reduce, how overlap slows it and computing, and what it adds slowly."""

    sweep: Sweep
    overlap: Overlap
    adding: tuple[Adding, ...]


def all_reduce(workers: int, repeats: int) -> Reduced:
    """Among workers of this machine."""
    with tempfile.TemporaryDirectory(prefix="paceline-measure-") as folder, ExitStack() as stack:
        started = [
            stack.enter_context(start(_worker(Path(folder), rank, workers, repeats)))
            for rank in range(workers)
        ]
        found = json.loads(_answer(started[0]))
    sweep = Sweep(tuple(found["sizes"]), tuple(found["times_ns"]))
    adding = tuple(
        Adding(
            DType[name.upper()],
            tuple(told["sizes"]),
            tuple(told["times_ns"]),
            tuple(told["float32_ns"]),
        )
        for name, told in found["adding"].items()
    )
    return Reduced(sweep, Overlap(**found["overlap"]), adding)


def _worker(folder: Path, rank: int, workers: int, repeats: int) -> Process:
    module = "paceline.measure.torch_reducing"
    numbers = (str(rank), str(workers), str(repeats))
    return Process(
        (sys.executable, "-m", module, str(folder / "store"), *numbers),
        {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        log=folder / f"worker-{rank}.txt",
        errors=folder / f"worker-{rank}.errors.txt",
    )


def _answer(first: Running) -> str:
    """What the first worker prints."""
    if first.wait(LIMIT_S) is None:
        raise MeasureError(
            f"the all-reduce sweep did not end in {LIMIT_S} s; is the machine loaded, or the "
            "loopback interface down? Try --workers 1 to leave it out."
        )
    answer, problem = first.printed()
    if not answer.strip():  # with an answer it does not matter that gloo may abort in its shutdown
        raise MeasureError(
            f"a worker of the all-reduce sweep failed: {problem.strip().splitlines()[-1:]}"
        )
    return answer
