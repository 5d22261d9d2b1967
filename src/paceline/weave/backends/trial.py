"""Trial runs: the same made-up inputs for every candidate, and whether their results agree."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.backend import Executable, Peers
from paceline.weave.backends.torch_compute import TORCH, narrow
from paceline.weave.layout import FLOATS, Partial, Sliced
from paceline.weave.program import Program, Statement

TOLERANCE = {DType.FLOAT64: 1e-9, DType.FLOAT32: 1e-4, DType.FLOAT16: 2e-2, DType.BFLOAT16: 1e-1}
"""Relative to the largest value: sums over ranks and elements may round in another order."""


def numbers(program: Program) -> dict[str, float]:
    """Values for the program's scalars: small, so that many trial steps stay finite."""
    return {s.name: 1.0 if s.name == "t" else 0.001 for s in program.inputs if _is_number(s)}


def filled(executable: Executable, program: Program, peers: Peers) -> None:
    """Put this worker's part of made-up inputs into the buffers, the same for every layout."""
    for source in program.inputs:
        group = source.type.group
        index = None if group is None else peers.index(group)
        if _is_number(source) or index is None:
            continue
        executable.buffers[source.name].copy_(_made_up(source, index))


@dataclass(frozen=True, eq=False)
class TrialResult:
    """What this worker holds after a program's trial run, by name."""

    program: Program
    values: Mapping[str, Any]


def agrees(one: TrialResult, other: TrialResult, peers: Peers) -> bool:
    """Is every input after the run the same under both programs? Schedules slice what was
    Replicated, and change no other layout: where they differ, the slices are compared."""
    for source in one.program.inputs:
        if source.name not in one.values or source.type.dtype not in FLOATS:
            continue
        kinds = (source.type, other.program[source.name].type)
        cut = next((k for k in kinds if isinstance(k.layout, Sliced)), None)
        parts = [one.values[source.name], other.values[source.name]]
        if cut is not None and cut.group is not None:
            index = peers.index(cut.group) or 0
            parts = [p if k == cut else narrow(cut, index, p) for k, p in zip(kinds, parts)]
        if not _close(parts[0], parts[1], source.type.dtype):
            return False
    return True


def _close(a: Any, b: Any, dtype: DType) -> bool:
    scale = float(b.abs().max()) if b.numel() else 0.0
    b = b if a.shape == b.shape else b.reshape(a.shape)
    limit = TOLERANCE[dtype]
    return bool(torch.allclose(a, b, rtol=limit, atol=limit * max(scale, 1e-30), equal_nan=True))


def _made_up(source: Statement, index: int) -> Any:
    """Normal values; state is not negative (it may stand under a root)."""
    kind = source.type
    part = index if isinstance(kind.layout, Partial) else 0
    generator = torch.Generator().manual_seed(zlib.crc32(f"{source.name} {part}".encode()))
    whole = torch.randn(kind.shape, generator=generator)
    whole = whole.abs() if source.op == ops.Input(ops.Role.STATE) else whole
    return narrow(kind, index, whole).to(TORCH[kind.dtype])


def _is_number(source: Statement) -> bool:
    return source.op == ops.Input(ops.Role.SCALAR)
