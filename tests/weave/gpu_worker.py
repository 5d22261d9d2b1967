"""A rank that runs generated Triton kernels on a GPU, against the meaning of the program; all ranks
share one device.

torchrun --nproc-per-node 2 gpu_worker.py OUT
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES", "1")

import numpy as np
import torch
import torch.distributed as dist

from paceline.graph import DType
from paceline.weave.backend import Peers
from paceline.weave.backends import backend
from paceline.weave.interpreter import distribute, interpret
from paceline.weave.layout import Group, Partial
from paceline.weave.program import Program
from paceline.weave.programs import adam, lamb, sgd
from paceline.weave.schedules import fully_fused


def values_of(step: Program, group: Group) -> dict:
    """The same on every rank."""
    rng, values = np.random.default_rng(0), {}
    for source in step.inputs:
        lead = (group.size,) if isinstance(source.type.layout, Partial) else ()
        made = np.abs(rng.standard_normal((*lead, *source.type.shape)))
        values[source.name] = 0.5 if source.type.is_scalar else made
    return values


def off_by(written: Program) -> float:
    """The largest difference of any weight or state of this rank after one step."""
    step, rank = fully_fused(written), dist.get_rank()
    (group,) = step.groups
    values = values_of(step, group)
    held = distribute(step, values)
    wanted = interpret(step, held)
    runner = backend("triton")
    run = runner.compile(step, Peers(rank, {group: None}), runner.tunables(step)[0])
    for name, buffer in run.buffers.items():
        buffer.copy_(torch.from_numpy(np.array(held[name][rank])))
    dist.barrier()
    run.run({s.name: values[s.name] for s in step.inputs if s.type.is_scalar})
    torch.cuda.synchronize()
    found = [
        torch.from_numpy(np.array(wanted.parts[name][rank])).sub(run.buffers[name].cpu().double())
        for name in ("w", "m", "v")
        if name in wanted.parts
    ]
    dist.barrier()
    run.close()
    return max(float(part.abs().max()) for part in found)


def main(out: Path) -> None:
    torch.cuda.set_device(0)
    dist.init_process_group("gloo")
    group = Group.world(dist.get_world_size())
    told = {
        "adam": off_by(adam(5000, group, eps=1e-3)),
        "sgd": off_by(sgd(777, group, momentum=0.9)),
        "clipped": off_by(adam(3000, group, eps=1e-3, max_norm=0.5)),
        "lamb": off_by(lamb((3000, 40, 1), group, eps=1e-3)),
        "half": off_by(adam(2048, group, dtype=DType.FLOAT16, eps=1e-2)),
    }
    (out / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
