"""The workers of the live pipeline tests: `worker.py FOLDER STAGES REPLICAS SCENARIO...`.

Torch is imported once and every worker forked from there. Each scenario leaves in FOLDER how far
the stage's weights and losses ended from those of the same training in one process, with the right
delay and with the wrong one; a worker that fails leaves why.
"""

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.runtime.stages import PipelineError, PipelineSchedule
from paceline.runtime.stages.torch_alone import train_alone
from paceline.runtime.stages.torch_border import Border
from paceline.runtime.stages.torch_checkpoint import load, save
from paceline.runtime.stages.torch_cut import cut
from paceline.runtime.stages.torch_links import Seat, groups
from paceline.runtime.stages.torch_worker import PipelineJob, StageModule, Worker

LAYERS, WIDTH, CLASSES, ROWS = 8, 12, 5, 6
MICROBATCHES, BATCHES, REST = 4, 5, 3


def model() -> nn.Sequential:
    """Eight layers, each a linear map and a tanh; equal in every process."""
    torch.manual_seed(3)
    widths = [WIDTH] * LAYERS + [CLASSES]
    layers = [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(widths)]
    return nn.Sequential(*layers).double()


OPTIMIZERS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.02),
}
loss = nn.functional.cross_entropy


@dataclass(frozen=True)
class Numbers:
    """Micro-batches made from their numbers. With replicas, each takes its share of every batch."""

    replica: int = 0
    replicas: int = 1

    def inputs(self, microbatch: int) -> Tensor:
        return torch.randn(ROWS, WIDTH, dtype=torch.float64, generator=self._seeded(microbatch, 0))

    def targets(self, microbatch: int) -> Tensor:
        return torch.randint(CLASSES, (ROWS,), generator=self._seeded(microbatch, 10_000))

    def _seeded(self, microbatch: int, more: int) -> torch.Generator:
        batch, within = divmod(microbatch, MICROBATCHES)
        number = (batch * self.replicas + self.replica) * MICROBATCHES + within
        return torch.Generator().manual_seed(number + more)


def main(arguments: list[str]) -> None:
    folder, stages, replicas, *scenarios = arguments
    context = multiprocessing.get_context("fork")
    seats = [Seat(r, int(stages), int(replicas)) for r in range(int(stages) * int(replicas))]
    workers = [context.Process(target=one_rank, args=(folder, s, scenarios)) for s in seats]
    for process in workers:
        process.start()
    for process in workers:
        process.join()
    codes = [process.exitcode for process in workers]
    (Path(folder) / "codes.json").write_text(json.dumps(codes))


def one_rank(folder: str, seat: Seat, scenarios: list[str]) -> None:
    try:
        _work(folder, seat, scenarios)
    except PipelineError as lost:
        (Path(folder) / f"error-{seat.rank}.txt").write_text(str(lost))
        raise SystemExit(1) from lost


def _work(folder: str, seat: Seat, scenarios: list[str]) -> None:
    torch.set_num_threads(1)
    world = seat.stages * seat.replicas
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=seat.rank, world_size=world,
        timeout=timedelta(seconds=60),
    )  # fmt: skip
    among = groups(seat)

    def worker(
        schedule: str, optimizer: str, recompute: str = "", border: Border | None = None
    ) -> Worker:
        stage = cut(model(), seat.stages)[seat.stage]
        made = OPTIMIZERS[optimizer](stage.parameters())
        job = PipelineJob(
            PipelineSchedule(schedule), MICROBATCHES, bool(recompute), (border,) if border else ()
        )
        data = Numbers(seat.replica, seat.replicas)
        return Worker(job, seat, StageModule(stage, loss), made, data, among=among)

    for scenario in scenarios:
        if scenario.startswith("die"):
            _die(worker("2bw", "momentum"))
        elif scenario.startswith("border"):
            _border(worker, scenario, Path(folder))
        elif scenario.startswith("resume"):
            _resume(worker, scenario, Path(folder))
        else:
            one = worker(*scenario.split(":"))
            losses = one.train(BATCHES) + one.train(REST)
            _keep(one, losses, Path(folder), scenario)
    dist.destroy_process_group()


def _keep(worker: Worker, losses: list[float], folder: Path, scenario: str) -> None:
    optimizer = next(name for name in OPTIMIZERS if name in scenario)
    delay = int("2bw" in scenario)
    right, wrong = (_alone(worker.seat, optimizer, d) for d in (delay, 1 - delay))
    start = cut(model(), worker.seat.stages)[worker.seat.stage].parameters()
    weights = list(worker.module.parameters())
    result = {
        "difference": _furthest(weights, right[0]),
        "difference_with_the_wrong_delay": _furthest(weights, wrong[0]),
        "moved": _furthest(weights, start),
        "losses": losses,
        "losses_alone": right[1],
    }
    path = folder / f"{scenario.replace(':', '-')}-{worker.seat.rank}.json"
    path.write_text(json.dumps(result))


def _alone(seat: Seat, optimizer: str, delay: int) -> tuple[list[Tensor], list[float]]:
    """This stage's weights, and the losses, after the same training in this process."""
    whole = model()
    losses = train_alone(
        whole, loss, OPTIMIZERS[optimizer](whole.parameters()), Numbers(),
        batches=BATCHES + REST, microbatches=MICROBATCHES * seat.replicas, delay=delay,
    )  # fmt: skip
    return list(cut(whole, seat.stages)[seat.stage].parameters()), losses


def _furthest(one: Iterable[Tensor], other: Iterable[Tensor]) -> float:
    return max(float((a - b).abs().max().detach()) for a, b in zip(one, other, strict=True))


def _resume(worker: Callable[..., Worker], scenario: str, folder: Path) -> None:
    """Train, save, go on in fresh workers; and be refused by workers of another schedule."""
    settings = scenario.split(":")[1:]
    before = worker(*settings)
    losses = before.train(BATCHES)
    save(before, folder / "checkpoint")
    after = worker(*settings)
    load(after, folder / "checkpoint")
    _keep(after, losses + after.train(REST), folder, scenario)
    try:
        load(worker("1f1b", settings[1]), folder / "checkpoint")
    except PipelineError as refused:
        (folder / f"refused-{before.seat.rank}.txt").write_text(str(refused))


def _border(worker: Callable[..., Worker], scenario: str, folder: Path) -> None:
    """Some activations pass alone; where all do, training is as ever."""
    _, ratio, schedule, optimizer = scenario.split(":")
    one = worker(schedule, optimizer, border=Border(float(ratio)))
    losses = one.train(BATCHES) + one.train(REST)
    _keep(one, losses, folder, scenario)
    told = {"losses": losses, "down": one.below.sent_bytes, "up": one.above.sent_bytes}
    (folder / f"border-{ratio}-{one.seat.rank}.json").write_text(json.dumps(told))


def _die(worker: Worker) -> None:
    """Rank 1 ends without a word in its second batch."""
    worker.train(1)
    if worker.seat.rank == 1:
        os._exit(7)
    worker.train(REST)


if __name__ == "__main__":
    main(sys.argv[1:])
