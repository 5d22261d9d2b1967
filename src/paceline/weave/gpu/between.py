"""Between two kernels of a group with reductions: totals over blocks, and arithmetic on them.

Everything stays on the device, as tables of one value a segment (or one number) that the next
kernel reads; only the join over ranks is a collective.
"""

from collections.abc import Mapping
from typing import Any

import torch

from paceline.weave import ops
from paceline.weave.backends.torch_compute import TORCH, local
from paceline.weave.compute import ComputeContext
from paceline.weave.cpu.phases import Domain, Phases
from paceline.weave.layout import Reduction
from paceline.weave.numbers import identity_of
from paceline.weave.program import Statement

_SCATTER = {Reduction.SUM: "sum", Reduction.MAX: "amax", Reduction.MIN: "amin"}


def totals(form: Phases, phase: int, parts: Mapping[str, Any], segments: Any) -> dict[str, Any]:
    """This rank's total of each reduction, in double precision; `segments`: of each block."""
    return {r.name: _total(form, r, parts[r.name], segments) for r in form.phases[phase].reductions}


def joins(form: Phases, phase: int) -> dict[str, Reduction]:
    """How each reduction's totals combine over ranks: every rank has seen its slice only."""
    return {r.name: ops.ACROSS_RANKS[_kind(r)] for r in form.phases[phase].reductions}


def follow(
    form: Phases, phase: int, joined: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    """The numbers and segment values that follow from the joined totals; `known` are those of
    earlier phases, and the host's numbers."""
    program, device = form.program, next(iter(joined.values())).device
    values = {n: torch.as_tensor(v, device=device) for n, v in known.items()}
    for s in program:
        if form.domains[s.name] is Domain.ELEMENT or form.levels[s.name] != phase + 1:
            continue
        if isinstance(s.op, ops.Reduce):
            values[s.name] = joined[s.name].to(TORCH[s.type.dtype])
        elif isinstance(s.op, ops.CollectiveOp):
            values[s.name] = values[s.args[0]]
        else:
            args = [values[a] for a in s.args]
            step = ComputeContext(s.type, tuple(program[a].type for a in s.args))
            values[s.name] = local(s.op, step, *args)
    return {n: v for n, v in values.items() if n not in known}


def _total(form: Phases, reduction: Statement, parts: Any, segments: Any) -> Any:
    join = ops.ACROSS_RANKS[_kind(reduction)]
    segmented = form.domains[reduction.name] is Domain.SEGMENT
    count = len(form.segments) if segmented else 1
    empty = torch.full(
        (count,), float(identity_of(join, True)), dtype=torch.float64, device=parts.device
    )
    where = segments if segmented else torch.zeros_like(segments)
    folded = empty.scatter_reduce(0, where, parts.double(), _SCATTER[join])
    return folded if segmented else folded.reshape(())


def _kind(reduction: Statement) -> ops.ReduceKind:
    assert isinstance(reduction.op, ops.Reduce)
    return reduction.op.kind
