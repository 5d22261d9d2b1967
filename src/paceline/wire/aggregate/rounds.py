"""What aggregation in the network can do, and how a mode asks for it.

A switch knows three operations on aligned arrays: sum integers (or floats, in workers' order), OR
bits, take maxima. A mode of aggregation is a generator on every worker: it yields what is to be
reduced, is sent the result, and returns the sum of all workers' gradients. So the same mode runs
through a switch and, for tests, in one process (`together`).
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.wire.errors import WireError

Array = NDArray[Any]
Floats = NDArray[np.float32]


class SwitchOp(Enum):
    SUM = 0
    OR = 1
    MAX = 2


@dataclass(frozen=True, eq=False)
class RoundRequest:
    """A round: every worker gives an array of the same shape and type, and gets the reduced one."""

    op: SwitchOp
    values: Array


Rounds = Generator[RoundRequest, Array, Floats]
Mode = Callable[[Floats], Rounds]
Reduce = Callable[[RoundRequest], Array]


def through(reduce: Reduce, rounds: Rounds) -> Floats:
    """Run one worker's rounds through whatever reduces them."""
    try:
        asked = next(rounds)
        while True:
            asked = rounds.send(reduce(asked))
    except StopIteration as end:
        found: Floats = end.value
        return found


def together(mode: Mode, gradients: Sequence[Floats]) -> list[Floats]:
    """All workers in one process, in step; what each of them returns."""
    workers = [mode(gradient) for gradient in gradients]
    asked = [next(worker) for worker in workers]
    while True:
        reduced = reduce_all(asked)
        ends: list[Floats] = []
        for number, worker in enumerate(workers):
            try:
                asked[number] = worker.send(reduced.copy())
            except StopIteration as end:
                ends.append(end.value)
        if ends:
            return ends


def reduce_all(asked: Sequence[RoundRequest]) -> Array:
    """What a switch makes of one round, workers in order."""
    first = asked[0]
    if any(a.op is not first.op or a.values.shape != first.values.shape for a in asked):
        raise WireError("workers ask for different rounds: their gradients or modes differ")
    total = first.values.copy()
    for other in asked[1:]:
        combine(first.op, total, other.values)
    return total


def combine(op: SwitchOp, total: Array, more: Array) -> None:
    """`total` op `more`, in place. Integer sums wrap round."""
    _COMBINE[op](total, more, out=total)


_COMBINE: dict[SwitchOp, Callable[..., Any]] = {
    SwitchOp.SUM: np.add,
    SwitchOp.OR: np.bitwise_or,
    SwitchOp.MAX: np.maximum,
}


def dense(gradient: Floats) -> Rounds:
    """Every value as it is: what the other modes are measured against."""
    return (yield RoundRequest(SwitchOp.SUM, gradient))
