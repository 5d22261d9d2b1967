"""The processes behind benchmarks/accuracy/pipeline.py; each prints one JSON object.

stages.py profile STAGES MICROBATCH     each stage alone, all at once, and a message
stages.py run STAGES MICROBATCHES MICROBATCH BATCHES      time of a step, by schedule
stages.py memory STAGES MICROBATCHES MICROBATCH           bytes held, by schedule
stages.py seat STAGES MICROBATCHES MICROBATCH BATCHES     both, as one rank of a job that stands
stages.py train FOLDER EPOCHS SEED      Fashion-MNIST on two stages: test accuracy, by schedule
"""

import gzip
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.runtime.stages import PipelineSchedule, Task, Work
from paceline.runtime.stages.torch_cut import cut
from paceline.runtime.stages.torch_links import Inbox, Outbox, Seat, groups
from paceline.runtime.stages.torch_live import LiveBytes
from paceline.runtime.stages.torch_profile import Sample, StageMeasure, measure_stage
from paceline.runtime.stages.torch_stage import Piece, Stage
from paceline.runtime.stages.torch_worker import Data, Job, Part, Worker

LAYERS, WIDTH, CLASSES = 8, 512, 10
PASSES = 4
REST_S = 0.01
SCHEDULES = (PipelineSchedule.GPIPE, PipelineSchedule.FLUSH, PipelineSchedule.TWO_BUFFERED)
loss = nn.functional.cross_entropy
fork = multiprocessing.get_context("fork")


def model() -> nn.Sequential:
    """Eight equal blocks; the last has its ReLU replaced by the classes."""
    torch.manual_seed(1)
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS - 1)]
    return nn.Sequential(*blocks, nn.Linear(WIDTH, CLASSES))


def optimizer(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)


@dataclass(frozen=True)
class Same:
    """One micro-batch again and again, so that making data costs nothing."""

    given: Tensor
    target: Tensor

    def inputs(self, microbatch: int) -> Tensor:
        return self.given

    def targets(self, microbatch: int) -> Tensor:
        return self.target


def same(rows: int) -> Same:
    return Same(torch.randn(rows, WIDTH), torch.randint(CLASSES, (rows,)))


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


def run(stages: int, microbatches: int, rows: int, batches: int) -> dict[str, list[float]]:
    """ns between the updates of stage 0, the last left out, by schedule."""

    def rank(seat: Seat) -> dict[str, list[int]]:
        return {s.value: _updates(_worker(s, seat, microbatches, rows), batches) for s in SCHEDULES}

    return in_ranks(stages, rank)[0]


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
    steps = {s.value: _updates(_worker(s, mine, microbatches, rows), batches) for s in SCHEDULES}
    held = {s.value: _held(s, mine, microbatches, rows) for s in SCHEDULES}
    dist.barrier()
    dist.destroy_process_group()
    return {"steps": steps, "held": held}


def train(folder: Path, epochs: int, seed: int) -> dict[str, float]:
    """Test accuracy after training on two stages."""
    images, labels = _images(folder, "train")

    def rank(seat: Seat) -> dict[str, list[Tensor]]:
        return {s.value: _trained(s, seat, images, labels, epochs, seed) for s in SCHEDULES[1:]}

    parts = in_ranks(2, rank)
    return {
        s.value: _accuracy(folder, [w for part in parts for w in part[s.value]])
        for s in SCHEDULES[1:]
    }


def in_process(work: Callable[[], Any]) -> Any:
    """In a process of its own."""
    return in_processes([work])[0]


def in_processes(works: list[Callable[[], Any]]) -> list[Any]:
    """All at once, each in a process of its own; their answers."""

    def one(work: Callable[[], Any], end: Any) -> None:
        torch.set_num_threads(1)
        end.send(work())

    pipes = [fork.Pipe(duplex=False) for _ in works]
    running = [fork.Process(target=one, args=(work, pipe[1])) for work, pipe in zip(works, pipes)]
    for process, (_, end) in zip(running, pipes):
        process.start()
        end.close()
    answers = [pipe[0].recv() for pipe in pipes]
    for process in running:
        process.join()
    return answers


def in_ranks(count: int, work: Callable[[Seat], Any]) -> list[Any]:
    """The ranks of one gloo job."""
    with tempfile.TemporaryDirectory() as folder:

        def rank(number: int) -> Any:
            meeting = f"file://{folder}/store"
            dist.init_process_group("gloo", init_method=meeting, rank=number, world_size=count)
            made = work(Seat(number, count))
            dist.destroy_process_group()
            return made

        return in_processes([lambda n=n: rank(n) for n in range(count)])


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


def _worker(
    schedule: PipelineSchedule,
    seat: Seat,
    microbatches: int,
    rows: int,
    watch: Callable[[Task], None] | None = None,
) -> Worker:
    part = cut(model(), seat.stages)[seat.stage]
    job, data = Job(schedule, microbatches), same(rows)
    return Worker(job, seat, Part(part, loss), optimizer(part), data, watch=watch)


def _updates(worker: Worker, batches: int) -> list[int]:
    ends: list[int] = []

    def watch(task: Task) -> None:
        if task.work is Work.UPDATE:
            ends.append(time.perf_counter_ns())

    worker.train(1)
    dist.barrier()
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


@dataclass(frozen=True)
class Shuffled:
    """Micro-batches of a data set in an order drawn anew for each epoch."""

    images: Tensor
    labels: Tensor
    rows: int
    seed: int

    def inputs(self, microbatch: int) -> Tensor:
        return self.images[self._rows(microbatch)]

    def targets(self, microbatch: int) -> Tensor:
        return self.labels[self._rows(microbatch)]

    def _rows(self, microbatch: int) -> Tensor:
        epoch, at = divmod(microbatch, len(self.images) // self.rows)
        return _order(len(self.images), self.seed * 1000 + epoch)[
            at * self.rows : (at + 1) * self.rows
        ]


@lru_cache(maxsize=2)
def _order(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def classifier(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10), nn.Identity(),
    )  # fmt: skip


def _trained(
    schedule: PipelineSchedule, seat: Seat, images: Tensor, labels: Tensor, epochs: int, seed: int
) -> list[Tensor]:
    part, microbatches, rows = cut(classifier(seed), 2)[seat.stage], 4, 32
    data: Data = Shuffled(images, labels, rows, seed)
    made = torch.optim.Adam(part.parameters(), lr=1e-3)
    batches = epochs * len(images) // (rows * microbatches)
    rate = torch.optim.lr_scheduler.LambdaLR(made, lambda batch: 1 - batch / batches)

    def watch(task: Task) -> None:
        if task.work is Work.UPDATE:
            rate.step()

    worker = Worker(Job(schedule, microbatches), seat, Part(part, loss), made, data, watch=watch)
    worker.train(batches)
    return [p.detach().numpy() for p in part.parameters()]


def _accuracy(folder: Path, weights: list[Any]) -> float:
    whole = classifier(0)
    images, labels = _images(folder, "t10k")
    with torch.no_grad():
        for parameter, value in zip(whole.parameters(), weights):
            parameter.copy_(torch.from_numpy(value))
        return float((whole(images).argmax(1) == labels).float().mean())


def _images(folder: Path, part: str) -> tuple[Tensor, Tensor]:
    pixels = _idx(folder / f"{part}-images-idx3-ubyte", 16).reshape(-1, 784)
    labels = _idx(folder / f"{part}-labels-idx1-ubyte", 8)
    return torch.from_numpy(pixels).float() / 255 - 0.3, torch.from_numpy(labels).long()


def _idx(path: Path, header: int) -> Any:
    packed = path.with_name(path.name + ".gz")
    raw = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return np.frombuffer(raw, np.uint8, offset=header).copy()


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
