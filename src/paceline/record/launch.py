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
from paceline.record.job import JOB_NAME, InLab, RecordedJob, job_of, keep_job

INJECT = Path(__file__).parent / "inject"
SETTINGS = "PACELINE_RECORD"

Runner = Callable[[Process], int]
"""Runs a process to its end; returns its exit code as a shell tells it."""


@dataclass(frozen=True)
class RecordRequest:
    """What to run, what to record of it, and where to."""

    command: tuple[str, ...]
    folder: Path
    steps: int = 10
    plain: int = 5
    overwrite: bool = False
    turns: bool = False  # recorded and plain steps take turns


@dataclass(frozen=True)
class RankRecording:
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
    ranks: tuple[RankRecording, ...]


def launch(
    request: RecordRequest, environment: Mapping[str, str], runner: Runner | None = None
) -> Recording:
    """Run the command to its end, by the runner where one is given; returns what was recorded."""
    _prepare(request)
    job = RecordedJob(
        job=f"{request.command[0]}-{time.time_ns()}",
        command=list(request.command),
        steps=request.steps,
        started_ns=time.time_ns(),
    )
    keep_job(job, request.folder)
    given = injected(environment, request, job.job)
    code = (runner or here)(Process(request.command, given, reads=True))
    kept = job_of(request.folder)  # also how it was launched
    ended = msgspec.structs.replace(kept, ended_ns=time.time_ns(), exit_code=code)
    keep_job(ended, request.folder)
    return Recording(request.folder, code, outcomes(request.folder))


def launched_in(lab: InLab, environment: Mapping[str, str]) -> None:
    """For a lab: if its job is recorded, note with the recording that the lab runs the training."""
    if SETTINGS not in environment:
        return
    folder = Path(json.loads(environment[SETTINGS])["folder"])
    if (folder / JOB_NAME).exists():
        keep_job(msgspec.structs.replace(job_of(folder), launched=lab), folder)


def injected(environment: Mapping[str, str], request: RecordRequest, job: str) -> dict[str, str]:
    """The job's environment with the recorder in it."""
    settings = {
        "folder": str(request.folder.resolve()),
        "steps": request.steps,
        "plain": request.plain,
        "turns": request.turns,
        "command": list(request.command),
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


def outcomes(folder: Path) -> tuple[RankRecording, ...]:
    """How each rank's recording ended, also that of a worker that was killed."""
    files = sorted(
        folder.glob("rank-*.facts.jsonl"),
        key=lambda p: int(p.name.split("-")[1][:-6].split(".")[0]),
    )
    return tuple(_outcome(path) for path in files)


def _outcome(path: Path) -> RankRecording:
    found = sidecar.read(path)
    rank = found.of(sidecar.RecordedHost)[0].rank if found.of(sidecar.RecordedHost) else -1
    ends = found.of(sidecar.End)
    if ends:
        end = ends[-1]
        return RankRecording(rank, end.steps, end.recorded, end.reason, end.detail)
    steps = found.of(sidecar.Step)
    recorded = sum(step.mode is sidecar.Mode.RECORDED for step in steps)
    return RankRecording(rank, len(steps), recorded, "killed")


def _prepare(request: RecordRequest) -> None:
    """An empty place to record to."""
    if not request.command:
        raise LaunchError(
            "nothing to record: give the training command after --, as in "
            "`paceline record -o runs/a -- torchrun --nproc-per-node 2 train.py`"
        )
    old = [*request.folder.glob("rank-*.*"), *request.folder.glob(JOB_NAME)]
    graph = request.folder / KEPT
    if (old or graph.exists()) and not request.overwrite:
        raise FileError(
            f"{request.folder} already holds a recording or a graph; "
            "give another folder with -o, or --overwrite to replace it"
        )
    for path in old:
        path.unlink()
    if graph.exists() and is_graph_folder(graph):
        shutil.rmtree(graph)
    request.folder.mkdir(parents=True, exist_ok=True)


def here(process: Process) -> int:
    """Run on this machine."""
    ended = run(process)
    assert ended is not None
    return 128 - ended if ended < 0 else ended
