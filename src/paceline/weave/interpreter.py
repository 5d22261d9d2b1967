"""What a program means: every rank's part of every value, in NumPy, in one process.

    result = interpret(step, distribute(step, {"g": per_rank, "w": w, ...}))
    new_w = result.value("w")

This is the specification: transformations and back ends are checked against it. Sums over ranks
go in rank order; reductions and products over elements are exact to the rounding of the result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.compute import ComputeContext, cut, local
from paceline.weave.layout import Partial, Reduction, Sliced, TensorType
from paceline.weave.numbers import Array, identity, load, store
from paceline.weave.program import Program, Statement
from paceline.weave.rules import WeaveError

Parts = tuple[Array, ...]
"""One array a rank of the tensor's group, in the group's order."""


@dataclass(frozen=True, eq=False)
class Result:
    """What ranks hold after a run: inputs (updated in place) and returned values."""

    program: Program
    parts: Mapping[str, Parts]

    def value(self, name: str) -> Array:
        """The global value of an input after the run, or of a returned value."""
        return join(self.program[name].type, self.parts[name], name)


def interpret(program: Program, inputs: Mapping[str, Parts]) -> Result:
    """Run all ranks; `inputs` are left as they are."""
    values = dict(inputs)
    if missing := [s.name for s in program.inputs if s.name not in inputs]:
        raise WeaveError(f"{program.name} got no value for {', '.join(missing)}")
    held = {s.name: values[s.name] for s in program.inputs}
    for statement in program:
        if not isinstance(statement.op, ops.Input):
            values[statement.name] = _run(program, statement, values)
        if isinstance(statement.op, ops.Update):
            held[statement.args[0]] = values[statement.name]
    return Result(program, {**held, **{n: values[n] for n in program.returns}})


def distribute(program: Program, values: Mapping[str, Any]) -> dict[str, Parts]:
    """Each input's parts from its global value; a Partial one comes as a sequence, one a rank."""
    return {s.name: split(s.type, values[s.name], s.name) for s in program.inputs}


def split(kind: TensorType, value: Any, name: str = "value") -> Parts:
    """What each rank of the group holds of a global value."""
    size = kind.group.size if kind.group else 1
    if isinstance(kind.layout, Partial):
        parts = [store(np.asarray(v), kind.dtype) for v in value]
        wrong = len(parts) != size or any(v.shape != kind.shape for v in parts)
        if wrong:
            raise WeaveError(f"{name}: a Partial {list(kind.shape)} takes {size} of that shape")
        return tuple(parts)
    whole = store(np.asarray(value), kind.dtype)
    if whole.shape != kind.shape:
        raise WeaveError(f"{name} has shape {list(whole.shape)}, the program says {kind}")
    return tuple(whole[cut(kind, i)].copy() for i in range(size))


def join(kind: TensorType, parts: Parts, name: str = "value") -> Array:
    """The global value of what ranks hold; replicas that differ are an error."""
    if isinstance(kind.layout, Sliced):
        return np.concatenate(parts, axis=kind.layout.dim)
    if isinstance(kind.layout, Partial):
        return _combine(kind.layout.op, parts, kind.dtype)
    for rank, part in enumerate(parts[1:], start=1):
        if not np.array_equal(parts[0], part, equal_nan=part.dtype.kind == "f"):
            raise WeaveError(f"{name} is Replicated, but ranks 0 and {rank} hold different values")
    return parts[0]


def _run(program: Program, statement: Statement, values: Mapping[str, Parts]) -> Parts:
    """The parts of one statement's result."""
    kinds = tuple(program[a].type for a in statement.args)
    parts = tuple(values[a] for a in statement.args)
    joint = _ACROSS.get(type(statement.op))
    if joint is not None:
        return joint(statement.op, ComputeContext(statement.type, kinds), *parts)
    size = statement.type.group.size if statement.type.group else 1
    return tuple(
        local(statement.op, ComputeContext(statement.type, kinds, i), *_at(parts, i))
        for i in range(size)
    )


def _at(parts: tuple[Parts, ...], index: int) -> list[Array]:
    """Rank `index`'s operands; constants have one part for all."""
    return [p[index] if len(p) > 1 else p[0] for p in parts]


# Communication: all ranks at once --------------------------------------------------------------


def _combine(op: Reduction, parts: Parts, dtype: DType) -> Array:
    combine = {Reduction.SUM: np.add, Reduction.MAX: np.maximum, Reduction.MIN: np.minimum}[op]
    with np.errstate(all="ignore"):
        total: Array = load(parts[0], dtype)
        for part in parts[1:]:
            total = combine(total, load(part, dtype))
    return store(total, dtype)


def _whole(step: ComputeContext, parts: Parts) -> Array:
    return join(step.args[0], parts)


def _spread(op: ops.WeaveOp, step: ComputeContext, parts: Parts) -> Parts:
    """Collectives that keep the value and change where it lies."""
    whole = _whole(step, parts)
    return tuple(whole[cut(step.kind, i)].copy() for i in range(len(parts)))


def _reduce_to(op: ops.ReduceTo, step: ComputeContext, parts: Parts) -> Parts:
    whole, layout = _whole(step, parts), step.kind.layout
    assert isinstance(layout, Partial)
    empty = np.full_like(whole, identity(layout.op, whole.dtype))
    return tuple(whole if i == op.root else empty.copy() for i in range(len(parts)))


def _broadcast(op: ops.Broadcast, step: ComputeContext, parts: Parts) -> Parts:
    return tuple(parts[op.root].copy() for _ in parts)


def _send(op: ops.Send, step: ComputeContext, parts: Parts) -> Parts:
    return tuple(p.copy() for p in parts)


_ACROSS: dict[type[ops.WeaveOp], Callable[..., Parts]] = {
    ops.AllReduce: _spread,
    ops.ReduceScatter: _spread,
    ops.AllGather: _spread,
    ops.AllToAll: _spread,
    ops.ReduceTo: _reduce_to,
    ops.Broadcast: _broadcast,
    ops.Send: _send,
}
