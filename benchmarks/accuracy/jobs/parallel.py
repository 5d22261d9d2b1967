"""One worker of a job that is more than data-parallel. It knows nothing of Paceline.

fsdp2 and zero cut weights or the update among all workers. tensor_data cuts every pair of matrices
in two and shards the data-parallel rest (FSDP2); pipeline_data has two stages, each under DDP.
"""

import argparse
import sys
import time
from collections.abc import Callable
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

Step = Callable[[], None]
HALVES = 2  # of a tensor-parallel matrix, and stages of a pipeline
MICRO_BATCHES = 4


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    step = PARALLEL[options.parallel](MODELS[options.model]())
    for _ in range(options.steps):
        step()
    dist.barrier()
    del step
    dist.destroy_process_group()
    time.sleep(0.2)  # gloo's threads let go of their objects before the interpreter is gone


def zero(task: Task) -> Step:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(task.model)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4)
    return training(model, optimizer, task)


def fsdp2(task: Task) -> Step:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return training(*sharded(task.model, mesh), task)


def tensor_data(task: Task) -> Step:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    shape = (dist.get_world_size() // HALVES, HALVES)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    names = [n for n, m in task.model.named_modules() if isinstance(m, nn.Linear)]
    names = names[: len(names) // 2 * 2]
    plan = {n: RowwiseParallel() if i % 2 else ColwiseParallel() for i, n in enumerate(names)}
    model = parallelize_module(task.model, mesh["tp"], plan)
    return training(*sharded(model, mesh["dp"]), task)


def pipeline_data(task: Task) -> Step:
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

    return step


def sharded(model: nn.Module, mesh: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
    for block in model.children():
        if any(True for _ in block.parameters()):
            fully_shard(block, mesh=mesh)
    whole = fully_shard(model, mesh=mesh)
    return whole, torch.optim.AdamW(whole.parameters(), lr=1e-4, foreach=False)


def training(model: nn.Module, optimizer: torch.optim.Optimizer, task: Task) -> Step:
    def step() -> None:
        task.loss(model(task.inputs), task.targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


PARALLEL: dict[str, Callable[[Task], Step]] = {
    "fsdp2": fsdp2,
    "zero": zero,
    "tensor_data": tensor_data,
    "pipeline_data": pipeline_data,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--parallel", choices=PARALLEL, required=True)
    parser.add_argument("--steps", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    main()
