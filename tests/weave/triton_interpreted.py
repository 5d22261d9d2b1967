"""Runs generated Triton kernels by Triton's interpreter, rank after rank, against the meaning of
the program. Started with TRITON_INTERPRET=1 by its test."""

import sys
from functools import reduce
from pathlib import Path

import numpy as np
import torch

from paceline.graph import DType
from paceline.weave.backends.async_collectives import JOIN
from paceline.weave.backends.torch_compute import TORCH
from paceline.weave.gpu.between import follow, joins, totals
from paceline.weave.gpu.generate import generate, phases_of
from paceline.weave.gpu.launch import Launcher, VectorSlice, loaded, on_host
from paceline.weave.interpreter import distribute, interpret
from paceline.weave.language import AllReduce, Dropout, Update, program, scalar, tensor
from paceline.weave.layout import Group, Partial, Replicated
from paceline.weave.ops import Role
from paceline.weave.program import Program
from paceline.weave.programs import adam, lamb, sgd
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
    run_all(
        step, buffers, {s.name: values[s.name] for s in step.inputs if s.type.is_scalar}, folder
    )
    for name in ("w", "m", "v"):
        for rank, part in enumerate(wanted.parts.get(name, ())):
            expected = torch.from_numpy(np.asarray(part)).to(buffers[name][rank].dtype)
            limit = 4e-3 if expected.dtype is torch.float16 else 2e-6
            torch.testing.assert_close(buffers[name][rank], expected, rtol=limit, atol=limit)


def run_all(step: Program, buffers: dict, scalars: dict, folder: Path) -> None:
    """Every rank's part of one phase after the other; totals are joined as a collective would."""
    fused = next(x for x in step.launches() if x.is_fused)
    form, (group,) = phases_of(fused), step.groups
    size = max(s.type.size for s in fused.body)
    segments = form.segments if form else (size,)
    ranks = [Launcher(VectorSlice(r, group.size, segments, 16), "cpu") for r in range(group.size)]
    known = dict(on_host(step)(scalars))
    for phase, source in enumerate(generate(fused)):
        kernel, found = loaded(source, folder), []
        for rank, launcher in enumerate(ranks):
            given = {f"{n}_own": buffers[n][rank] for n in source.own}
            given |= {
                f"{n}_peers": torch.tensor([b.data_ptr() for b in buffers[n]]) for n in source.peers
            }
            given |= {f"{n}_table": known[n] for n in source.tables}
            parts = launcher.launch(kernel, source, {**given, **known})
            if form is not None and parts:
                found.append(totals(form, phase, parts, launcher.segments))
        if form is not None and found:
            folds = {name: JOIN[join] for name, join in joins(form, phase).items()}
            joined = {n: reduce(fold, [f[n] for f in found]) for n, fold in folds.items()}
            known |= follow(form, phase, joined, known)


def main(folder: Path) -> None:
    for ranks in (1, 2, 3):
        group = Group.world(ranks)
        for size in (1, 2, 50):
            compare(adam(size, group, eps=1e-3), folder)
            compare(sgd(size, group, momentum=0.9), folder)
            compare(noisy(size, group), folder)
            compare(adam(size, group, eps=1e-3, max_norm=0.5), folder)
        for segments in ((1,), (3, 40), (17, 1, 32, 5)):
            compare(lamb(segments, group, eps=1e-3), folder)
        compare(adam(20, group, dtype=DType.FLOAT16, eps=1e-2), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
