"""Run a training command with the recorder in every Python process of it; the job sees no change.

The recorder travels in two environment variables: `PACELINE_RECORD` (settings) and `PYTHONPATH`
(a folder whose `sitecustomize` waits for torch). Output and exit code pass through.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from paceline.errors import FileError
from paceline.graph.files import KEPT, is_graph_folder
from paceline.launch import LaunchError, Process, run
from paceline.record import sidecar

INJECT = Path(__file__).parent / "inject"
SETTINGS = "PACELINE_RECORD"

Runner = Callable[[Process], int]
"""Runs a process to its end; returns its exit code as a shell tells it."""


@dataclass(frozen=True)
class Order:
    """What to run, what to record of it, and where to."""

    command: tuple[str, ...]
    folder: Path
    steps: int = 10
    plain: int = 5
    overwrite: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a rank's recording ended."""

    rank: int
    steps: int
    recorded: int
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Recording:
    """What a recorded job left."""

    folder: Path
    exit_code: int
    ranks: tuple[Outcome, ...]


def launch(order: Order, environment: Mapping[str, str], runner: Runner | None = None) -> Recording:
    """Run the command to its end, by the runner where one is given; returns what was recorded."""
    _prepare(order)
    job = sidecar.Job(
        job=f"{order.command[0]}-{time.time_ns()}",
        command=list(order.command),
        steps=order.steps,
        started_ns=time.time_ns(),
    )
    sidecar.keep_job(job, order.folder)
    given = injected(environment, order, job.job)
    code = (runner or here)(Process(order.command, given, reads=True))
    told = sidecar.job_of(order.folder)  # also how it was launched
    ended = msgspec.structs.replace(told, ended_ns=time.time_ns(), exit_code=code)
    sidecar.keep_job(ended, order.folder)
    return Recording(order.folder, code, outcomes(order.folder))


def launched_in(lab: sidecar.InLab, environment: Mapping[str, str]) -> None:
    """For a lab: if its job is recorded, note with the recording that the lab runs the training."""
    if SETTINGS not in environment:
        return
    folder = Path(json.loads(environment[SETTINGS])["folder"])
    if (folder / sidecar.JOB_NAME).exists():
        sidecar.keep_job(msgspec.structs.replace(sidecar.job_of(folder), launched=lab), folder)


def injected(environment: Mapping[str, str], order: Order, job: str) -> dict[str, str]:
    """The job's environment with the recorder in it."""
    settings = {
        "folder": str(order.folder.resolve()),
        "steps": order.steps,
        "plain": order.plain,
        "command": list(order.command),
    }
    return {
        "KINETO_LOG_LEVEL": "6",  # else every start and stop writes lines into the job's output
        "TORCH_FR_BUFFER_SIZE": "20000",  # collectives that the flight recorder keeps
        **hooked(environment),
        SETTINGS: json.dumps(settings),
        "PACELINE_JOB": job,
    }


def hooked(environment: Mapping[str, str]) -> dict[str, str]:
    """With the folder whose `sitecustomize` starts what the environment asks for."""
    path = environment.get("PYTHONPATH", "")
    return {**environment, "PYTHONPATH": f"{INJECT}{os.pathsep}{path}" if path else str(INJECT)}


def outcomes(folder: Path) -> tuple[Outcome, ...]:
    """How each rank's recording ended, also that of a worker that was killed."""
    files = sorted(
        folder.glob("rank-*.facts.jsonl"),
        key=lambda p: int(p.name.split("-")[1][:-6].split(".")[0]),
    )
    return tuple(_outcome(path) for path in files)


def _outcome(path: Path) -> Outcome:
    found = sidecar.read(path)
    rank = found.of(sidecar.Host)[0].rank if found.of(sidecar.Host) else -1
    ends = found.of(sidecar.End)
    if ends:
        end = ends[-1]
        return Outcome(rank, end.steps, end.recorded, end.reason, end.detail)
    steps = found.of(sidecar.Step)
    recorded = sum(step.mode is sidecar.Mode.RECORDED for step in steps)
    return Outcome(rank, len(steps), recorded, "killed")


def _prepare(order: Order) -> None:
    """An empty place to record to."""
    if not order.command:
        raise LaunchError(
            "nothing to record: give the training command after --, as in "
            "`paceline record -o runs/a -- torchrun --nproc-per-node 2 train.py`"
        )
    old = [*order.folder.glob("rank-*.*"), *order.folder.glob(sidecar.JOB_NAME)]
    graph = order.folder / KEPT
    if (old or graph.exists()) and not order.overwrite:
        raise FileError(
            f"{order.folder} already holds a recording or a graph; "
            "give another folder with -o, or --overwrite to replace it"
        )
    for path in old:
        path.unlink()
    if graph.exists() and is_graph_folder(graph):
        shutil.rmtree(graph)
    order.folder.mkdir(parents=True, exist_ok=True)


def here(process: Process) -> int:
    """Run on this machine."""
    ended = run(process)
    assert ended is not None
    return 128 - ended if ended < 0 else ended
