"""The processes behind benchmarks/accuracy/pipeline.py; each prints one JSON object.

stages.py profile STAGES MICROBATCH     each stage alone, all at once, and a message
stages.py run STAGES MICROBATCHES MICROBATCH BATCHES      time of a step, by schedule
stages.py memory STAGES MICROBATCHES MICROBATCH           bytes held, by schedule
stages.py seat STAGES MICROBATCHES MICROBATCH BATCHES     both, as one rank of a job that stands
stages.py train FOLDER EPOCHS SEED      Fashion-MNIST on two stages: test accuracy, by schedule
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from paceline.runtime.stages import PipelineSchedule, Task, TaskKind
from paceline.runtime.stages.torch_cut import cut
from paceline.runtime.stages.torch_links import Seat
from paceline.runtime.stages.torch_live import LiveBytes
from paceline.runtime.stages.torch_worker import PipelineJob, StageModule, Worker
from stage_model import loss, model, optimizer, same
from stage_profile import profile
from stage_ranks import in_ranks
from stage_training import train

TURN = 12
"""Batches of one schedule in a row."""

SCHEDULES = (PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.TWO_BUFFERED)


def run(stages: int, microbatches: int, rows: int, batches: int) -> dict[str, list[float]]:
    """ns between the updates of stage 0, by schedule."""
    return in_ranks(stages, lambda seat: _steps(seat, microbatches, rows, batches))[0]


def memory(stages: int, microbatches: int, rows: int) -> dict[str, list[int]]:
    """The most bytes of weights and activations that each stage holds between tasks."""

    def rank(seat: Seat) -> dict[str, int]:
        return {s.value: _held(s, seat, microbatches, rows) for s in SCHEDULES}

    found = in_ranks(stages, rank)
    return {s.value: [by_rank[s.value] for by_rank in found] for s in SCHEDULES}


def seat(stages: int, microbatches: int, rows: int, batches: int) -> dict[str, Any]:
    """What `run` and `memory` tell, of this rank of a job whose launcher said where all meet."""
    dist.init_process_group("gloo")
    mine = Seat(dist.get_rank(), stages)
    steps = _steps(mine, microbatches, rows, batches)
    held = {s.value: _held(s, mine, microbatches, rows) for s in SCHEDULES}
    dist.barrier()
    dist.destroy_process_group()
    return {"steps": steps, "held": held}


def _worker(
    schedule: PipelineSchedule,
    seat: Seat,
    microbatches: int,
    rows: int,
    watch: Callable[[Task], None] | None = None,
) -> Worker:
    part = cut(model(), seat.stages)[seat.stage]
    job, data = PipelineJob(schedule, microbatches), same(rows)
    return Worker(job, seat, StageModule(part, loss), optimizer(part), data, watch=watch)


def _steps(seat: Seat, microbatches: int, rows: int, batches: int) -> dict[str, list[int]]:
    """The schedules in turn, some batches at a time, so that a disturbance meets all alike."""
    workers = {s.value: _worker(s, seat, microbatches, rows) for s in SCHEDULES}
    steps: dict[str, list[int]] = {name: [] for name in workers}
    for worker in workers.values():
        worker.train(1)
    turn = min(TURN, batches)
    for _ in range(batches // turn):
        for name, worker in workers.items():
            dist.barrier()
            steps[name] += _updates(worker, turn)
    return steps


def _updates(worker: Worker, batches: int) -> list[int]:
    """Between updates; the last is left out, for it has no batch after it."""
    ends: list[int] = []

    def watch(task: Task) -> None:
        if task.work is TaskKind.UPDATE:
            ends.append(time.perf_counter_ns())

    worker.watch = watch
    worker.train(batches)
    return np.diff(ends)[:-1].tolist()


def _held(schedule: PipelineSchedule, seat: Seat, microbatches: int, rows: int) -> int:
    """Gradients and optimizer state are alive too; they are counted one by one and taken off."""
    with LiveBytes() as live:
        most = 0

        def watch(task: Task) -> None:
            nonlocal most
            most = max(most, live.bytes - _others(worker))

        worker = _worker(schedule, seat, microbatches, rows, watch)
        given = same(rows)  # the data is the job's, not the pipeline's
        own = sum(t.numel() * t.element_size() for t in (given.given, given.target))
        del given
        worker.train(4)
        return most - own


def _others(worker: Worker) -> int:
    versions = {worker.versions.newest, max(0, worker.versions.newest - 1)}
    kept = [v for v in versions if v > worker.versions.newest - worker.versions.count]
    tensors = [g for v in kept for g in worker.versions.gradients(v)]
    for state in worker.optimizer.state.values():
        tensors += [t for t in state.values() if isinstance(t, Tensor)]
    return sum(t.numel() * t.element_size() for t in tensors)


_ANSWERS: dict[str, Callable[..., Any]] = {
    "profile": profile,
    "run": run,
    "memory": memory,
    "seat": seat,
}


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    what, *rest = arguments
    if what == "train":
        found: Any = train(Path(rest[0]), int(rest[1]), int(rest[2]))
    else:
        found = _ANSWERS[what](*map(int, rest))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
