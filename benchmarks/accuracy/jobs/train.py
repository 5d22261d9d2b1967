"""One worker of a plain DDP job; rank 0 writes every step's times. Nothing here is instrumented.

Step times are wall-clock from one optimizer step's end to the next's, on rank 0. Beside them stand
the machine's busy CPU time and all workers' own, so that steps disturbed by others are known.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parent))
from models import MODELS


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    task = MODELS[options.model]()
    model = DistributedDataParallel(task.model, bucket_cap_mb=options.bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    marks: list[tuple[float, float, float]] = []
    for _ in range(options.warmup + options.steps):
        optimizer.zero_grad()
        task.loss(model(task.inputs), task.targets).backward()
        optimizer.step()
        marks.append((time.perf_counter(), time.process_time(), busy_seconds()))
    report(options, marks)
    del model  # DDP's reducer holds the group; it must go first, or a worker may abort at exit
    dist.barrier()
    dist.destroy_process_group()


def report(options: argparse.Namespace, marks: list[tuple[float, float, float]]) -> None:
    """Gather all workers' CPU time; rank 0 writes the counted steps."""
    table = torch.tensor(marks, dtype=torch.float64).diff(dim=0)[options.warmup - 1 :]
    own = table[:, 1].clone()
    dist.all_reduce(own)
    if dist.get_rank() == 0:
        figures = {
            "step_s": table[:, 0].tolist(),
            "workers_cpu_s": own.tolist(),
            "machine_cpu_s": table[:, 2].tolist(),
            "load": os.getloadavg()[0],
        }
        Path(options.out).write_text(json.dumps(figures))


def busy_seconds() -> float:
    """CPU time that the whole machine has spent on anything, in seconds."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--bucket-mb", type=float, default=25.0)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--out", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
