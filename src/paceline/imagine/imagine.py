"""`imagine`: a graph from a training script alone, at any number of workers, without a recording.

The script runs unchanged in a process of its own on tensors that have shapes and no data, as one
rank of a world that is not there. Durations are left unpriced: `cost.price` finds them.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from paceline.graph import Graph, OpKind
from paceline.imagine.imagined import Imagined, ImagineError, read
from paceline.imagine.imagined_graph import graph_of
from paceline.launch import Process, run

_PYTHON: Final = ("python", "python3", Path(sys.executable).name)
_LAST_LINES: Final = 5


@dataclass(frozen=True)
class ScriptJob:
    """A script to imagine. Without `ranks`: rank 0, and whomever it exchanges messages with."""

    command: tuple[str, ...]
    world_size: int
    steps: int = 1
    settle: int = 0  # steps to let pass first; 0: as many as optimizers and DDP need
    ranks: tuple[int, ...] = ()
    forward: bool = False  # passes of the model alone: a script that serves
    gpu: bool = False  # torch chooses as on a GPU: optimizers take all their tensors at once
    timeout_s: float = 600.0


def imagine(job: ScriptJob) -> Graph:
    """The graph of the imagined ranks; each stands for all that do the same."""
    _check(job)
    wanted, found = list(job.ranks or (0,)), dict[int, Imagined]()
    while wanted:
        rank = wanted.pop(0)
        found[rank] = _imagined(job, rank)
        partners = {row.peer for row in found[rank].rows if row.kind in _MESSAGES}
        if unknown := partners - found.keys() - set(wanted):
            if job.ranks:
                raise ImagineError(
                    f"rank {rank} exchanges messages with {sorted(unknown)}, which --ranks leaves "
                    "out; add them, or leave --ranks away"
                )
            wanted += sorted(unknown)
    return graph_of([found[rank] for rank in sorted(found)])


_MESSAGES: Final = (OpKind.SEND, OpKind.RECV)


def _check(job: ScriptJob) -> None:
    if not _script(job.command):
        raise ImagineError(
            "nothing to imagine: give the training script after --, as in "
            "`paceline imagine --device h100 -- train.py --batch 32`"
        )
    if job.world_size < 1 or job.steps < 1 or job.settle < 0:
        raise ImagineError(f"{job.world_size} workers, {job.steps} steps: give 1 or more of each")
    wrong = [rank for rank in job.ranks if not 0 <= rank < job.world_size]
    if wrong:
        raise ImagineError(f"ranks {wrong} are not in a world of {job.world_size}: 0 to "
                           f"{job.world_size - 1}")  # fmt: skip


def _script(command: Sequence[str]) -> list[str]:
    """The script and its arguments, without the Python that would run it."""
    given = list(command)
    if given and Path(given[0]).name in _PYTHON:
        given = given[1:]
    if given and Path(given[0]).name in ("torchrun", "mpirun", "srun", "accelerate"):
        raise ImagineError(
            f"{given[0]} starts real workers; give the script itself, and the number of workers "
            "with --world-size"
        )
    if given and given[0] != "-m" and not Path(given[0]).is_file():
        raise ImagineError(f"{given[0]} is no file; give a Python script, or -m and a module")
    return given


def _imagined(job: ScriptJob, rank: int) -> Imagined:
    """One rank, in a process of its own: scripts keep state in modules and in the environment."""
    settings = {
        "rank": rank,
        "world_size": job.world_size,
        "steps": job.steps,
        "settle": job.settle,
        "forward": job.forward,
        "gpu": job.gpu,
        "command": _script(job.command),
    }
    with tempfile.TemporaryDirectory(prefix="paceline-imagine-") as folder:
        output = Path(folder) / "outcome.json"
        said = _run(msgspec.json.encode(settings).decode(), output, job.timeout_s)
        if not output.exists():
            last = "\n".join(said.strip().splitlines()[-_LAST_LINES:])
            raise ImagineError(f"imagining rank {rank} broke off; its last words:\n{last}")
        outcome = read(output)
    if outcome.imagined is None:
        raise ImagineError(f"rank {rank} cannot be imagined. {outcome.error}")
    return outcome.imagined


def _run(settings: str, output: Path, timeout_s: float) -> str:
    """Run to the end; returns what the script printed."""
    said = output.with_suffix(".txt")
    command = (sys.executable, "-m", "paceline.imagine.torch_imagine", settings, str(output))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    if run(Process(command, environment, log=said), timeout_s) is None:
        raise ImagineError(
            f"the script did not end its steps within {timeout_s:g} s; give a longer --timeout, or "
            "let it start with less to prepare"
        )
    return said.read_text(errors="replace")
