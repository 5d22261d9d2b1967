"""What is measured of the stages before any pipeline runs, apart from it."""

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.runtime.stages.torch_cut import cut
from paceline.runtime.stages.torch_links import Inbox, Outbox, Seat, groups
from paceline.runtime.stages.torch_profile import Sample, StageMeasure, measure_stage
from paceline.runtime.stages.torch_stage import Piece, Stage

from stage_model import WIDTH, loss, model, optimizer, same
from stage_ranks import fork, in_process, in_processes, in_ranks

PASSES = 4
REST_S = 0.01


def profile(stages: int, rows: int) -> dict[str, Any]:
    """Measures of each stage alone, for one and two versions; the slowdown of two at once."""
    alone = {str(v): in_process(lambda v=v: _measures(stages, rows, v)) for v in (1, 2)}
    return {
        "stages": alone,
        "cores": _cores(stages, rows),
        "rested": in_process(lambda: _rested(rows)),
        "late_ns": _late(rows),
        "message": {**_message(rows * WIDTH * 4), "adds_ns": _added(stages, rows)},
    }


def _measures(stages: int, rows: int, versions: int) -> list[dict[str, Any]]:
    parts = cut(model(), stages)
    return [asdict(_measure(parts, i, rows, versions)) for i in range(stages)]


def _measure(parts: list[nn.Sequential], i: int, rows: int, versions: int) -> StageMeasure:
    data, last = same(rows), i == len(parts) - 1
    sample = Sample(data.given, i == 0, data.target if last else None)
    return measure_stage(
        f"stage {i}", parts[i], sample, optimizer(parts[i]),
        loss=loss if last else None, versions=versions, repeats=20,
    )  # fmt: skip


def _cores(workers: int, rows: int, turns: int = 16) -> float:
    """How many cores so many stages really share: the work of all over the time until the last is
    done. Alone and together in turn, so that a disturbance from outside meets both alike."""
    gate = fork.Barrier(workers)

    def work(mine: bool) -> list[list[float]]:
        stage, given, leaves = _example(rows)
        times: list[list[float]] = [[], []]
        for turn in range(2 * turns):
            gate.wait()
            start = time.perf_counter_ns()
            if mine or turn % 2:
                _passes(stage, given, leaves)
            gate.wait()
            times[turn % 2].append(time.perf_counter_ns() - start)
        return times

    works = [lambda mine=i == 0: work(mine) for i in range(workers)]
    alone, together = in_processes(works)[0]
    return workers * min(1.0, undisturbed(alone) / undisturbed(together))


def _rested(rows: int, turns: int = 24) -> float:
    """How much longer a pass lasts whose forward and backward each come after a rest, as in a stage
    that waits for messages: the processor has gone to sleep, and its caches are others'."""
    stage, given, leaves = _example(rows)
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
    cores = os.cpu_count() or 1
    return max(0.0, _small_message(rows, cores) - _small_message(rows, 0))


def _small_message(rows: int, busy: int, repeats: int = 100) -> float:
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
    stage, given, leaves = _example(rows)
    begun.wait()
    while True:
        _passes(stage, given, leaves, 1)


def _added(workers: int, rows: int, turns: int = 16) -> float:
    """ns of work that a message adds at either end while all stages work: passes beside one message
    sent and one received each, less passes without, until the last stage is done."""

    def rank(seat: Seat) -> list[list[float]]:
        among, (stage, given, leaves) = groups(seat), _example(rows)
        inbox, outbox = Inbox(seat.rank ^ 1, among.down), Outbox(seat.rank ^ 1, among.down)
        message = torch.zeros(rows, WIDTH)
        inbox.expect(turns * PASSES)
        inbox.learn(message)
        times: list[list[float]] = [[], []]
        for turn in range(2 * turns):
            dist.barrier()
            start = time.perf_counter_ns()
            for _ in range(PASSES):
                if turn % 2:
                    outbox.send(message)
                _passes(stage, given, leaves, 1)
                if turn % 2:
                    inbox.take(message.device)
            dist.barrier()
            times[turn % 2].append(time.perf_counter_ns() - start)
        outbox.drain()
        return times

    without, beside = in_ranks(workers, rank)[0]
    share = min(1.0, (os.cpu_count() or 1) / workers)
    return max(0.0, (undisturbed(beside) - undisturbed(without)) * share / PASSES / 2)


def _example(rows: int) -> tuple[Stage, Tensor, dict[str, Tensor]]:
    part = cut(model(), 2)[0]
    return Stage(Piece(part)), same(rows).given, dict(part.named_parameters())


def undisturbed(times: Sequence[float]) -> float:
    """What a tenth of the samples beat: other work on the machine only ever adds to a time."""
    return sorted(times)[round(0.1 * (len(times) - 1))]


def _passes(stage: Stage, given: Tensor, leaves: dict[str, Tensor], count: int = PASSES) -> float:
    start = time.perf_counter_ns()
    for _ in range(count):
        made = stage.forward(0, given, leaves)
        stage.backward(0, torch.ones_like(made))
    return time.perf_counter_ns() - start


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
