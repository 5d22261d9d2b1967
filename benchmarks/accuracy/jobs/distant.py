"""One stage of a pipeline over far-apart machines: times its steps, and tells the last loss.

distant.py PLAN BATCHES     as a worker; PLAN is a JSON object with cuts, microbatch, microbatches
                            and the share of activations that passes each border
"""

import json
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.runtime.stages import PipelineSchedule, Task, TaskKind
from paceline.runtime.stages.torch_border import Border
from paceline.runtime.stages.torch_links import Seat
from paceline.runtime.stages.torch_profile import (
    Sample,
    TrainedLayer,
    measure_border,
    measure_layers,
)
from paceline.runtime.stages.torch_worker import PipelineJob, StageModule, Worker

LAYERS, WIDTH, CLASSES = 8, 512, 10
loss = nn.functional.cross_entropy


def layers() -> list[nn.Module]:
    torch.manual_seed(1)
    made: list[nn.Module] = [
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS - 1)
    ]
    made.append(nn.Linear(WIDTH, CLASSES))
    for parameter in nn.ModuleList(made).parameters():
        if parameter.dim() > 1:  # as torch draws them, eight layers learn nothing for long
            nn.init.kaiming_normal_(parameter, nonlinearity="relu")
    return made


def optimizer(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)


@dataclass(frozen=True)
class Drawn:
    """Micro-batches of a task that can be learnt: around which of ten points a sample lies."""

    rows: int

    def inputs(self, microbatch: int) -> Tensor:
        points = 0.3 * torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(10**6))
        noise = torch.Generator().manual_seed(microbatch)
        return points[self.targets(microbatch)] + torch.randn(self.rows, WIDTH, generator=noise)

    def targets(self, microbatch: int) -> Tensor:
        drawn = torch.Generator().manual_seed(10**7 + microbatch)
        return torch.randint(CLASSES, (self.rows,), generator=drawn)


def profile(rows: int) -> list[dict[str, Any]]:
    """What each layer takes and sends; processor time, for several of these run at once."""
    torch.set_num_threads(1)
    data, made = Drawn(rows), layers()
    found = []
    for number, layer in enumerate(made):
        last = number == len(made) - 1
        sample = Sample(data.inputs(0), number == 0, data.targets(0) if last else None)
        name = f"layer {number}"
        found.append(TrainedLayer(name, layer, sample, optimizer(layer), loss if last else None))
    return [vars(each) for each in measure_layers(found, clock=time.thread_time_ns)]


def packing(rows: int, share: float) -> dict[str, int]:
    """What a compressed border takes of its stages' threads for a micro-batch."""
    torch.set_num_threads(1)
    return measure_border(torch.randn(rows, WIDTH).relu(), Border(share, packed=True))


def main(plan: dict[str, Any], batches: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    cuts, rank = plan["cuts"], dist.get_rank()
    part = nn.Sequential(*layers()[cuts[rank] : cuts[rank + 1]])
    borders = tuple(Border(share, packed=True) if share < 1 else None for share in plan["shares"])
    job = PipelineJob(PipelineSchedule.ONE_F_ONE_B, plan["microbatches"], borders=borders)
    ends: list[float] = []

    def watch(task: Task) -> None:
        if task.work is TaskKind.UPDATE:
            ends.append(time.perf_counter())

    seat, data = Seat(rank, len(cuts) - 1), Drawn(plan["microbatch"])
    worker = Worker(job, seat, StageModule(part, loss), optimizer(part), data, watch=watch)
    losses = worker.train(batches)
    print(json.dumps({"steps_s": [b - a for a, b in pairwise(ends)][1:-1], "losses": losses}))
    sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]))
