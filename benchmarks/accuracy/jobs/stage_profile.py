"""What is measured of the stages before any pipeline runs that is predicted, apart from it."""

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.runtime.stages import PipelineSchedule, Task, TaskKind
from paceline.runtime.stages.torch_cut import cut
from paceline.runtime.stages.torch_links import Seat
from paceline.runtime.stages.torch_profile import Sample, StageMeasure, TrainedLayer, measure_stage
from paceline.runtime.stages.torch_stage import Piece, Stage
from paceline.runtime.stages.torch_worker import PipelineJob, StageModule, Worker
from stage_model import WIDTH, loss, model, optimizer, same
from stage_ranks import fork, in_process, in_ranks

CORES = os.cpu_count() or 1
REST_S = 0.01

MICROBATCHES = 8
"""Of the pipelines whose work is timed: twice those of the ones that are predicted."""

TURNS, IN_A_ROW = 6, 10
"""Of batches, one pipeline after the other."""

AT_WORK = {1: PipelineSchedule.ONE_F_ONE_B, 2: PipelineSchedule.TWO_BUFFERED}
"""By versions of the weights: two of them share the caches."""


def profile(stages: int, rows: int) -> dict[str, Any]:
    """What each stage holds and sends, its passes and messages at work, for one and two versions of
    the weights; what rests and small messages cost."""
    held = in_process(lambda: _measures(stages, rows))
    at_work = _at_work(stages, rows)
    for work in at_work.values():
        work["stages"] = [one | times for one, times in zip(held, work["stages"])]
    return {
        "at_work": at_work,
        "rested": in_process(lambda: _rested(stages, rows)),
        "late_ns": _late(rows),
        "message": _message(rows * WIDTH * 4),
    }


def _measures(stages: int, rows: int) -> list[dict[str, Any]]:
    parts = cut(model(), stages)
    return [asdict(_measure(parts, i, rows)) for i in range(stages)]


def _measure(parts: list[nn.Sequential], i: int, rows: int) -> StageMeasure:
    data, last = same(rows), i == len(parts) - 1
    sample = Sample(data.given, i == 0, data.target if last else None)
    stage = TrainedLayer(
        f"stage {i}", parts[i], sample, optimizer(parts[i]), loss if last else None
    )
    return measure_stage(stage, repeats=2)


def _at_work(stages: int, rows: int) -> dict[str, dict[str, Any]]:
    """Processor time of each stage's passes in a pipeline over loopback, and at either end of a
    message: all else that the processes spend. Passes take longer there than alone, since stages
    and messages share caches. Means of the quarter of the batches that took least; and how long
    the undisturbed step of that pipeline lasted, which says how well its stages share cores. By
    versions of the weights; their pipelines run in turn, so that a disturbance meets both alike.
    """

    def rank(seat: Seat) -> dict[str, list[list[list[int]]]]:
        workers = {str(v): _worker(seat, rows, schedule) for v, schedule in AT_WORK.items()}
        spent = {v: _timed(worker) for v, worker in workers.items()}
        found: dict[str, list[list[list[int]]]] = {v: [] for v in workers}
        for _ in range(TURNS):
            for v, worker in workers.items():
                dist.barrier()
                found[v].append(_batches(worker, spent[v]))
        return {v: turns[1:] for v, turns in found.items()}  # the first warms up

    told = in_ranks(stages, rank)
    return {v: _summary([one[v] for one in told]) for v in told[0]}


def _worker(seat: Seat, rows: int, schedule: PipelineSchedule) -> Worker:
    part = cut(model(), seat.stages)[seat.stage]
    return Worker(
        PipelineJob(schedule, MICROBATCHES),
        seat,
        StageModule(part, loss),
        optimizer(part),
        same(rows),
    )


def _batches(worker: Worker, spent: dict[str, int]) -> list[list[int]]:
    """What each of some batches took: of forward, backward, update, all of the process, and time.
    The last is left out, for it has no batch after it."""
    found: list[list[int]] = []

    def watch(task: Task) -> None:
        if task.work is TaskKind.UPDATE:
            found.append([*spent.values(), time.process_time_ns(), time.perf_counter_ns()])

    worker.watch = watch
    worker.train(IN_A_ROW)
    return np.diff(found, axis=0)[:-1].tolist()


def _summary(told: list[list[list[list[int]]]]) -> dict[str, Any]:
    """From what each rank tells of each turn's batches."""
    steps = [step for turn in told[0] for step in smoothed([batch[-1] for batch in turn])]
    times = np.array([[batch[:-1] for turn in rank for batch in turn] for rank in told])
    whole = times[:, :, -1].sum(axis=0)
    quiet = times[:, np.argsort(whole)[: len(whole) // 4]].mean(axis=1)  # by rank and kind
    ends = 2 * 2 * MICROBATCHES * (len(told) - 1)
    return {
        "stages": [
            {
                "forward_ns": round(forward / MICROBATCHES),
                "backward_ns": round(backward / MICROBATCHES),
                "update_ns": round(update),
            }
            for forward, backward, update, _ in quiet.tolist()
        ],
        "end_ns": float(quiet[:, -1].sum() - quiet[:, :-1].sum()) / ends,
        "microbatches": MICROBATCHES,
        "step_ns": undisturbed(steps),
    }


def _timed(worker: Worker) -> dict[str, int]:
    """ns of its thread's time that a worker spends on passes and updates, from now on."""
    spent = {"forward": 0, "backward": 0, "update": 0}

    def wrap(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            start = time.thread_time_ns()
            made = original(*arguments)
            spent[name] += time.thread_time_ns() - start
            return made

        setattr(owner, name, call)

    wrap(worker._stage, "forward")
    wrap(worker._stage, "backward")
    wrap(worker.versions, "update")
    return spent


def _rested(stages: int, rows: int, turns: int = 60) -> float:
    """How much longer a pass lasts whose forward and backward each come after a rest, as in a stage
    that waits for messages: the processor has gone to sleep, and its caches are others'."""
    stage, given, leaves = _example(stages, rows)
    times: list[list[float]] = [[], []]
    for turn in range(2 * turns):
        rest = REST_S if turn % 2 else 0.0
        time.sleep(rest)
        start = time.perf_counter_ns()
        made = stage.forward(0, given, leaves)
        middle = time.perf_counter_ns()
        time.sleep(rest)
        again = time.perf_counter_ns()
        stage.backward(0, torch.ones_like(made))
        times[turn % 2].append(time.perf_counter_ns() - again + middle - start)
    return max(1.0, undisturbed(times[1]) / undisturbed(times[0]))


def _late(rows: int) -> float:
    """How much later a small message comes, in the mean, while others keep all cores busy."""
    return max(0.0, _small_message(rows, CORES) - _small_message(rows, 0))


def _small_message(rows: int, busy: int, repeats: int = 300) -> float:
    """Mean ns of a message one way between two processes that wait for it, beside busy ones."""
    begun = fork.Barrier(busy + 1)
    others = [fork.Process(target=_compute, args=(rows, begun), daemon=True) for _ in range(busy)]
    for process in others:
        process.start()
    begun.wait()

    def rank(seat: Seat) -> float:
        message, other, times = torch.zeros(1), 1 - seat.rank, []
        acts = (dist.send, dist.recv) if seat.rank == 0 else (dist.recv, dist.send)
        for _ in range(repeats):
            time.sleep(REST_S / 2 * (seat.rank == 0))
            start = time.perf_counter_ns()
            for act in acts:
                act(message, other)
            times.append((time.perf_counter_ns() - start) / 2)
        return statistics.mean(times)

    found: float = in_ranks(2, rank)[0]
    for process in others:
        process.terminate()
        process.join()
    return found


def _compute(rows: int, begun: Any) -> None:
    torch.set_num_threads(1)
    stage, given, leaves = _example(2, rows)
    begun.wait()
    while True:
        stage.backward(0, torch.ones_like(stage.forward(0, given, leaves)))


def _example(stages: int, rows: int) -> tuple[Stage, Tensor, dict[str, Tensor]]:
    part = cut(model(), stages)[0]
    return Stage(Piece(part)), same(rows).given, dict(part.named_parameters())


def undisturbed(times: Sequence[float]) -> float:
    """What a tenth of the samples beat: other work on the machine only ever adds to a time."""
    return sorted(times)[round(0.1 * (len(times) - 1))]


def smoothed(steps: Sequence[float]) -> list[float]:
    """Means of four steps in a row: without a flush a late update makes the next one early."""
    return [statistics.mean(steps[i : i + 4]) for i in range(max(1, len(steps) - 3))]


def _message(size_bytes: int, repeats: int = 60) -> dict[str, float]:
    """ns of a message one way, and of processor time at either end."""

    def rank(seat: Seat) -> tuple[float, float]:
        message, other = torch.zeros(size_bytes // 4), 1 - seat.rank
        acts = (dist.send, dist.recv) if seat.rank == 0 else (dist.recv, dist.send)
        times = []
        for _ in range(repeats):
            start, busy = time.perf_counter_ns(), time.process_time_ns()
            for act in acts:
                act(message, other)
            times.append((time.perf_counter_ns() - start, time.process_time_ns() - busy))
        wall, cpu = (undisturbed(column) for column in zip(*times))
        return wall / 2, cpu / 2

    found = in_ranks(2, rank)
    return {
        "wall_ns": statistics.mean(f[0] for f in found),
        "cpu_ns": statistics.mean(f[1] for f in found),
    }
