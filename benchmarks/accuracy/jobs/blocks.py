"""One worker of a job that trains in blocks, each plain or under a plan, in a given order.

Plain and changed steps alternate within one process, so that what drifts on a shared machine
touches them alike. Rank 0 writes every block's steps, and what the plan's exchange sent.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import paceline
from paceline.errors import PacelineError

sys.path.insert(0, str(Path(__file__).parent))
from models import MODELS, Task
from parallel import PARALLEL, Job

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.001, momentum=0.9),
    "adam": lambda weights: torch.optim.AdamW(weights, lr=1e-5),
}


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    task = MODELS[options.model]()
    built = PARALLEL.get(options.parallel)
    job = built(task) if built is not None else ddp(task, OPTIMIZERS[options.optimizer])

    blocks = json.loads(Path(options.blocks).read_text())
    done = [run(block, job) for block in blocks]
    if dist.get_rank() == 0:
        Path(options.out).write_text(json.dumps(done))
    del job  # DDP's reducer holds the group; it must go first, or a worker may abort at exit
    dist.barrier()
    dist.destroy_process_group()


def ddp(task: Task, optimizer: Callable[[Any], torch.optim.Optimizer]) -> Job:
    model = DistributedDataParallel(task.model, bucket_cap_mb=25)
    made = optimizer(model.parameters())

    def step() -> None:
        made.zero_grad()
        task.loss(model(task.inputs), task.targets).backward()
        made.step()

    return Job(model, made, step)


def run(block: dict[str, Any], job: Job) -> dict[str, Any]:
    """The block's steps, in seconds; what refuses to be applied says why."""
    plan = block["plan"]
    under = paceline.applied(plan, job.model, job.optimizer, forced=True) if plan else nullcontext()
    try:
        with under as sent:
            job.begin()
            marks = [ended(job) for _ in range(block["warm"] + block["steps"])]
            steps = [b - a for a, b in pairwise(marks[block["warm"] - 1 :])]
            return {"plan": plan, "step_s": steps, "sent": sent.a_step() if sent else {}}
    except PacelineError as error:
        return {"plan": plan, "refused": str(error)}


def ended(job: Job) -> float:
    """The moment at which one more step has ended."""
    job.step()
    return time.perf_counter()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--parallel", choices=("ddp", *PARALLEL), default="ddp")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--blocks", required=True, help="JSON: plan, warm and steps of each block")
    parser.add_argument("--out", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
