"""One worker of a job that is more than DDP on tensors at hand. It knows nothing of Paceline.

fsdp2 and zero cut weights or the update among all workers, tensor every pair of matrices.
tensor_data cuts them in two and shards the data-parallel rest (FSDP2). pipeline_data has two
stages, each under DDP; loaded is DDP whose batches a DataLoader decodes on the training thread.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parent))
from models import MODELS, Task
from photographs import batches_of

HALVES = 2  # of a tensor-parallel matrix, and stages of a pipeline
MICRO_BATCHES = 4


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    job = PARALLEL[options.parallel](MODELS[options.model]())
    job.begin()
    for _ in range(options.steps):
        job.step()
    dist.barrier()
    del job
    dist.destroy_process_group()
    time.sleep(0.2)  # gloo's threads let go of their objects before the interpreter is gone


@dataclass(frozen=True)
class Job:
    """A training, step by step."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[], None]
    begin: Callable[[], None] = lambda: None  # an epoch


def zero(task: Task) -> Job:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(task.model)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4)
    return training(model, optimizer, task)


def fsdp2(task: Task) -> Job:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return training(*sharded(task.model, mesh), task)


def tensor(task: Task) -> Job:
    model = in_pairs(task.model, init_device_mesh("cpu", (dist.get_world_size(),)))
    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False), task)


def tensor_data(task: Task) -> Job:
    shape = (dist.get_world_size() // HALVES, HALVES)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    return training(*sharded(in_pairs(task.model, mesh["tp"]), mesh["dp"]), task)


def in_pairs(model: nn.Module, mesh: Any) -> nn.Module:
    """Linear layers cut by their outputs and by their inputs in turn."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    names = [n for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    names = names[: len(names) // 2 * 2]
    plan = {n: RowwiseParallel() if i % 2 else ColwiseParallel() for i, n in enumerate(names)}
    cut: nn.Module = parallelize_module(model, mesh, plan)
    return cut


def pipeline_data(task: Task) -> Job:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    shape = (HALVES, dist.get_world_size() // HALVES)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("pp", "dp"))
    number, group = mesh["pp"].get_local_rank(), mesh["pp"].get_group()
    blocks = list(task.model.children())
    cut = len(blocks) // HALVES
    part = nn.Sequential(*(blocks[:cut] if number == 0 else blocks[cut:]))
    stage = PipelineStage(
        DistributedDataParallel(part, process_group=mesh["dp"].get_group()),
        number,
        HALVES,
        torch.device("cpu"),
        group=group,
    )
    schedule = Schedule1F1B(stage, n_microbatches=MICRO_BATCHES, loss_fn=task.loss)
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-4)

    def step() -> None:
        if number == 0:
            schedule.step(task.inputs)
        else:
            schedule.step(target=task.targets)
        optimizer.step()
        optimizer.zero_grad()

    return Job(part, optimizer, step)


def loaded(task: Task) -> Job:
    """Batches as large as the task's, of its shape of images."""
    model = DistributedDataParallel(task.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = batches_of(len(task.inputs))
    batches = iter(())

    def begin() -> None:
        nonlocal batches
        batches = iter(loader)

    def step() -> None:
        images, targets = next(batches)
        optimizer.zero_grad()
        task.loss(model(images), targets).backward()
        optimizer.step()

    return Job(model, optimizer, step, begin)


def sharded(model: nn.Module, mesh: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
    for block in model.children():
        if any(True for _ in block.parameters()):
            fully_shard(block, mesh=mesh)
    whole = fully_shard(model, mesh=mesh)
    return whole, torch.optim.AdamW(whole.parameters(), lr=1e-4, foreach=False)


def training(model: nn.Module, optimizer: torch.optim.Optimizer, task: Task) -> Job:
    def step() -> None:
        task.loss(model(task.inputs), task.targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    return Job(model, optimizer, step)


PARALLEL: dict[str, Callable[[Task], Job]] = {
    "fsdp2": fsdp2,
    "zero": zero,
    "tensor": tensor,
    "tensor_data": tensor_data,
    "pipeline_data": pipeline_data,
    "loaded": loaded,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--parallel", choices=PARALLEL, required=True)
    parser.add_argument("--steps", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    main()
