"""What is measured of the stages before any pipeline runs, apart from it."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.runtime.stages.torch_cut import cut
from paceline.runtime.stages.torch_links import Inbox, Outbox, Seat, groups
from paceline.runtime.stages.torch_profile import Sample, StageMeasure, measure_stage
from paceline.runtime.stages.torch_stage import Piece, Stage
from stage_model import WIDTH, loss, model, optimizer, same
from stage_ranks import fork, in_process, in_processes, in_ranks

CORES = os.cpu_count() or 1
PASSES = 4
REST_S = 0.01


def profile(stages: int, rows: int) -> dict[str, Any]:
    """Measures of each stage alone, for one and two versions; how many cores as many stages share
    at work; what rests and messages cost."""
    alone = {str(v): in_process(lambda v=v: _measures(stages, rows, v)) for v in (1, 2)}
    return {
        "stages": alone,
        "cores": _cores(stages, rows),
        "rested": in_process(lambda: _rested(stages, rows)),
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


def _cores(stages: int, rows: int, turns: int = 20) -> float:
    """How many cores so many stages really share: those that there are, less what their caches and
    turns cost. Processor time of the same passes, by one stage alone and by all at once in turn, so
    that a disturbance from outside meets both alike."""
    gate = fork.Barrier(stages)

    def work(mine: bool) -> list[list[float]]:
        example, times = _example(stages, rows), [[], []]
        for turn in range(2 * turns):
            gate.wait()
            start = time.process_time_ns()
            if mine or turn % 2:
                _passes(*example)
            times[turn % 2].append(time.process_time_ns() - start)
            gate.wait()
        return times

    found = in_processes([lambda mine=i == 0: work(mine) for i in range(stages)])
    alone, together = np.array(found[0][0]), np.mean([times[1] for times in found], axis=0)
    return min(CORES, stages) / max(1.0, float(np.median(together / alone)))


def _rested(stages: int, rows: int, turns: int = 24) -> float:
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
    example = _example(2, rows)
    begun.wait()
    while True:
        _passes(*example, 1)


def _added(stages: int, rows: int, turns: int = 24) -> float:
    """ns of processor time that a message adds at either end while all stages work: passes beside
    one message sent and one received each, less passes without. Where stages share cores, one that
    waits for a message gives its core to another, which fills the caches: that is the message's
    cost, and the exchange is the pipeline's own. Else rests are the replay's to account for, and
    nobody waits."""

    def rank(seat: Seat) -> list[list[float]]:
        example, message = _example(stages, rows), torch.zeros(rows, WIDTH)
        exchange = (_in_turn if stages > CORES else _ahead)(seat, message, turns * PASSES)
        times: list[list[float]] = [[], []]
        for turn in range(2 * turns):
            dist.barrier()
            start = time.process_time_ns()
            if turn % 2:
                exchange(lambda: _passes(*example, 1))
            else:
                _passes(*example)
            times[turn % 2].append(time.process_time_ns() - start)
        dist.barrier()  # who leaves now leaves nobody waiting
        return times

    without, beside = np.sum(in_ranks(stages, rank), axis=0)
    more = undisturbed(beside) - undisturbed(without)
    return max(0.0, more / stages / PASSES / 2)


_Exchange = Callable[[Callable[[], Any]], None]
"""Does some work `PASSES` times, with a message sent and one received beside each."""


def _in_turn(seat: Seat, message: Tensor, count: int) -> _Exchange:
    """As a pipeline does: a message is taken before the next one moves."""
    peer, group = seat.rank ^ 1, groups(seat).down
    inbox, outbox = Inbox(peer, group), Outbox(peer, group)
    inbox.expect(count)
    inbox.learn(message)

    def exchange(work: Callable[[], Any]) -> None:
        for number in range(PASSES):
            outbox.send(message)
            work()
            if number:
                inbox.take(message.device)
        inbox.take(message.device)

    return exchange


def _ahead(seat: Seat, message: Tensor, _: int) -> _Exchange:
    """All messages are asked for at once, and waited for once the work is done."""
    peer, group, places = seat.rank ^ 1, groups(seat).down, message.repeat(PASSES, 1, 1)

    def exchange(work: Callable[[], Any]) -> None:
        under_way = [dist.irecv(place, peer, group) for place in places]
        for _ in range(PASSES):
            under_way.append(dist.isend(message, peer, group))
            work()
        for one in under_way:
            one.wait()

    return exchange


def _example(stages: int, rows: int) -> tuple[Stage, Tensor, dict[str, Tensor]]:
    part = cut(model(), stages)[0]
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
