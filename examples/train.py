"""Train a small model on random data, in any of torch's ways to use many workers.

    torchrun --nproc-per-node 2 examples/train.py --model transformer --parallel fsdp2

It knows nothing of Paceline. `--times FILE` keeps what each step took, as this rank saw it.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from models import MODELS, Task

Step = Callable[[], None]


def main() -> None:
    options = parse()
    step = prepare(options)
    times = [timed(step) for _ in range(options.steps)]
    if options.times:
        Path(f"{options.times}.{dist.get_rank()}").write_text(json.dumps(times))
    dist.barrier()
    del step
    leave()


def leave() -> None:
    """Part from the other workers, once all are done and no model is held any more."""
    dist.destroy_process_group()
    time.sleep(0.2)  # else the interpreter may be gone before gloo's threads let go of its objects


def prepare(options: argparse.Namespace) -> Step:
    """Join the other workers and build the model; what is given back trains one step."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    dist.init_process_group("gloo")
    torch.manual_seed(options.seed + dist.get_rank())
    return PARALLEL[options.parallel](MODELS[options.model](), options)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(MODELS), default="mlp")
    parser.add_argument("--parallel", choices=sorted(PARALLEL), default="ddp")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=32, help="samples a worker and step")
    parser.add_argument("--bucket-mb", type=float, default=25.0, help="DDP's bucket size")
    parser.add_argument("--micro-batches", type=int, default=4, help="of a pipeline step")
    parser.add_argument("--accumulate", type=int, default=1, help="backward passes a step")
    parser.add_argument("--hook", choices=["none", "fp16", "powersgd"], default="none")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", help="write step times to FILE.<rank>")
    return parser.parse_args(arguments)


def timed(step: Step) -> tuple[int, int]:
    """Wall and CPU nanoseconds of one step."""
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    step()
    return time.perf_counter_ns() - wall, time.process_time_ns() - cpu


def ddp(task: Task, options: argparse.Namespace) -> Step:
    """Every worker has the whole model; gradients are averaged in buckets."""
    model = nn.parallel.DistributedDataParallel(task.model, bucket_cap_mb=options.bucket_mb)
    add_hook(model, options.hook)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return training(model, model, optimizer, task, options)


def zero(task: Task, options: argparse.Namespace) -> Step:
    """Like DDP, with the optimizer's state cut across workers."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(task.model, bucket_cap_mb=options.bucket_mb)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-4)
    return training(model, model, optimizer, task, options)


def fsdp2(task: Task, options: argparse.Namespace) -> Step:
    """Weights, gradients and optimizer state are cut across workers, block by block."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in task.model:
        fully_shard(block, mesh=mesh)
    model = fully_shard(task.model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return training(model, model, optimizer, task, options)


def tensor(task: Task, options: argparse.Namespace) -> Step:
    """Every matrix is cut across workers: columns of one, rows of the next."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(options.seed)  # all workers see the same batch
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    columns = ("query", "key", "value", "up")
    linears = [n for n, m in task.model.named_modules() if isinstance(m, nn.Linear)]
    if options.model == "transformer":
        linears = [n for n in linears if n.split(".")[-1] in (*columns, "out", "down")]
        by_columns = {n for n in linears if n.split(".")[-1] in columns}
    else:
        linears = linears[: len(linears) // 2 * 2]
        by_columns = set(linears[::2])
    plan = {n: ColwiseParallel() if n in by_columns else RowwiseParallel() for n in linears}
    model = parallelize_module(task.model, mesh, plan)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)
    return training(model, model, optimizer, task, options)


def pipeline(task: Task, options: argparse.Namespace) -> Step:
    """Each worker has some of the blocks; micro-batches flow through them, 1F1B.

    Stages that are told what they pass on need not ask each other, so that this can be imagined.
    """
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, world = dist.get_rank(), dist.get_world_size()
    first, last = (n * len(task.model) // world for n in (rank, rank + 1))
    part = task.model[first:last]
    given = task.model[:first](task.batch(options.batch // options.micro_batches)[0])
    shapes = {"input_args": (given,), "output_args": (part(given),)}
    stage = PipelineStage(part, rank, world, torch.device("cpu"), **shapes)
    schedule = Schedule1F1B(stage, n_microbatches=options.micro_batches, loss_fn=task.loss)
    optimizer = torch.optim.Adam(part.parameters(), lr=1e-4)

    def step() -> None:
        inputs, target = task.batch(options.batch)
        given = {0: (inputs,)}.get(rank, ())
        schedule.step(*given, **({"target": target} if rank == world - 1 else {}))
        optimizer.step()
        optimizer.zero_grad()

    return step


def training(
    model: Any, accumulating: Any, optimizer: Any, task: Task, options: argparse.Namespace
) -> Step:
    """The plain loop: forward, backward, update."""
    run = torch.compile(model) if options.compile else model

    def step() -> None:
        for turn in range(options.accumulate):
            last = turn == options.accumulate - 1
            skip = getattr(accumulating, "no_sync", nullcontext) if not last else nullcontext
            with skip():
                inputs, target = task.batch(options.batch)
                task.loss(run(inputs), target).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def add_hook(model: nn.parallel.DistributedDataParallel, name: str) -> None:
    """One of torch's own communication hooks."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    if name == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif name == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=3
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


PARALLEL: dict[str, Callable[[Task, argparse.Namespace], Step]] = {
    "ddp": ddp,
    "zero": zero,
    "fsdp2": fsdp2,
    "tensor": tensor,
    "pipeline": pipeline,
}

if __name__ == "__main__":
    main()
