"""Runs generated Triton kernels by Triton's interpreter, rank after rank, against the meaning of
the program. Started with TRITON_INTERPRET=1 by its test."""

import sys
from pathlib import Path

import numpy as np
import torch

from paceline.graph import DType
from paceline.weave.backends.torch_compute import TORCH
from paceline.weave.gpu.generate import generate
from paceline.weave.gpu.launch import launch, loaded, on_host
from paceline.weave.interpreter import distribute, interpret
from paceline.weave.language import AllReduce, Dropout, Update, program, scalar, tensor
from paceline.weave.layout import Group, Partial, Replicated
from paceline.weave.ops import Role
from paceline.weave.program import Program
from paceline.weave.programs import adam, sgd
from paceline.weave.schedules import fully_fused


def noisy(size: int, group: Group) -> Program:
    g = tensor("g", (size,), Partial(), group, role=Role.GRADIENT)
    w = tensor("w", (size,), Replicated(), group, role=Role.PARAMETER)
    seed = scalar("seed", group, DType.INT64)
    return program("noisy", Update(w, w - Dropout(AllReduce(g), 0.3, seed, site=2)))


def compare(written: Program, folder: Path) -> None:
    step = fully_fused(written)
    (group,) = step.groups
    rng = np.random.default_rng(0)
    values = {}
    for source in step.inputs:
        kind = source.type
        lead = (group.size,) if isinstance(kind.layout, Partial) else ()
        number = 7 if kind.dtype is DType.INT64 else 0.5
        made = np.abs(rng.standard_normal((*lead, *kind.shape)))
        values[source.name] = number if kind.is_scalar else made
    held = distribute(step, values)
    wanted = interpret(step, held)
    buffers = {
        s.name: [torch.from_numpy(np.array(p)).to(TORCH[s.type.dtype]) for p in held[s.name]]
        for s in step.inputs
    }
    fused = next(x for x in step.launches() if x.is_fused)
    source = generate(fused)
    kernel = loaded(source, folder)
    tables = {n: torch.tensor([b.data_ptr() for b in buffers[n]]) for n in source.peers}
    numbers = on_host(step)({s.name: values[s.name] for s in step.inputs if s.type.is_scalar})
    for rank in range(group.size):
        own = {n: buffers[n][rank] for n in source.own}
        shape = (rank, group.size, written.inputs[0].type.size)
        launch(kernel, source, shape, tables, own, numbers, block=16)
    for name in ("w", "m", "v"):
        for rank, part in enumerate(wanted.parts.get(name, ())):
            expected = torch.from_numpy(np.asarray(part)).to(buffers[name][rank].dtype)
            limit = 4e-3 if expected.dtype is torch.float16 else 2e-6
            torch.testing.assert_close(buffers[name][rank], expected, rtol=limit, atol=limit)


def main(folder: Path) -> None:
    for ranks in (1, 2, 3):
        group = Group.world(ranks)
        for size in (1, 2, 50):
            compare(adam(size, group, eps=1e-3), folder)
            compare(sgd(size, group, momentum=0.9), folder)
            compare(noisy(size, group), folder)
        compare(adam(20, group, dtype=DType.FLOAT16, eps=1e-2), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
