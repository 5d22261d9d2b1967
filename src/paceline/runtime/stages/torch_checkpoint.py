"""Checkpoints of a pipeline between two batches: one file a stage.

A 2BW checkpoint holds both weight versions: the batch after it computes on the older one. Training
that is resumed then equals training that was never interrupted.
"""

from pathlib import Path
from typing import Any

import torch

from paceline.runtime.stages.errors import PipelineError
from paceline.runtime.stages.torch_worker import Worker


def save(worker: Worker, folder: Path) -> Path:
    """Write this worker's stage; replaces its file whole or not at all. Returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(worker, folder)
    state = {
        "job": _job(worker),
        "batches_done": worker.batches_done,
        "newest": worker.versions.newest,
        "versions": worker.versions.state(),
        "optimizer": worker.optimizer.state_dict(),
        "buffers": dict(worker.module.named_buffers()),
    }
    unfinished = path.with_suffix(f".unfinished-{worker.seat.rank}")
    torch.save(state, unfinished)
    unfinished.replace(path)
    return path


def load(worker: Worker, folder: Path) -> None:
    """Go on from a checkpoint of a job of the same shape and schedule."""
    path = _path(worker, folder)
    if not path.is_file():
        found = sorted(p.name for p in folder.glob("stage-*.pt")) if folder.is_dir() else []
        raise PipelineError(
            f"no checkpoint of stage {worker.seat.stage} in {folder}; found {found or 'nothing'}"
        )
    state = torch.load(path, weights_only=True)
    _check(state["job"], _job(worker), path)
    worker.batches_done = state["batches_done"]
    worker.versions.restore(state["versions"], state["newest"])
    worker.optimizer.load_state_dict(state["optimizer"])
    with torch.no_grad():
        for name, buffer in worker.module.named_buffers():
            buffer.copy_(state["buffers"][name])


def _path(worker: Worker, folder: Path) -> Path:
    return folder / f"stage-{worker.seat.stage}.pt"


def _job(worker: Worker) -> dict[str, Any]:
    return {
        "schedule": worker.job.schedule.value,
        "stages": worker.seat.stages,
        "microbatches": worker.job.microbatches,
    }


def _check(saved: dict[str, Any], wanted: dict[str, Any], path: Path) -> None:
    other = [f"{k}: {saved[k]} there, {wanted[k]} here" for k in wanted if saved[k] != wanted[k]]
    if other:
        raise PipelineError(
            f"{path} is a checkpoint of another pipeline ({'; '.join(other)}). Weight versions "
            "mean different things there: resume with its settings."
        )
