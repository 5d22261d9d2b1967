"""How long one operator takes on a template: closed forms, no simulation.

Matrix product (m, k, n), g times: weight-stationary tiles of depth x width stay in a tensor core
while m rows stream through: tiles * max(m, depth) + depth + width cycles. It also has to move its
operands: at least once each, and 2 m k n / sqrt(buffer elements) elements where they do not fit
(the I/O bound of a blocked product). Vector operator: elements * steps over lanes; only what
exceeds the buffer travels to memory. An operator lasts the longer of computing and moving.
"""

from dataclasses import dataclass
from enum import IntEnum
from math import ceil, sqrt

from paceline.place.hardware.template import CLOCK_HZ, HBM_BYTES_PER_S, Template

BYTES = 2  # of an element
MIB = 2**20


class Unit(IntEnum):
    """Which kind of core an operator needs."""

    TENSOR = 0
    VECTOR = 1


@dataclass(frozen=True)
class Operator:
    """One node of a layer: a product (m, k, n) g times, or m elements of `k` steps each."""

    name: str
    unit: Unit
    m: int
    k: int
    n: int = 1
    g: int = 1
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Durations:
    """Cycles on one core, and with all cores of the unit working together."""

    one: int
    all: int


def durations(operator: Operator, template: Template) -> Durations:
    """Both ways to run an operator; using all cores never takes longer here."""
    compute, cores = _COMPUTE[operator.unit], _cores(operator.unit, template)
    moving = _moving_cycles(operator, template)
    one = max(compute(operator, template, 1), moving)
    return Durations(one, min(one, max(compute(operator, template, cores), moving)))


def cores_of(unit: Unit, template: Template) -> int:
    return _cores(unit, template)


def flops(operator: Operator) -> float:
    """Multiply-adds count as two; vector operators count their steps."""
    return (
        float(operator.m)
        * operator.k
        * operator.n
        * operator.g
        * (2 if operator.unit is Unit.TENSOR else 1)
    )


def _cores(unit: Unit, template: Template) -> int:
    return template.tensor_cores if unit is Unit.TENSOR else template.vector_cores


def _tensor_cycles(op: Operator, t: Template, cores: int) -> int:
    """Cores share the tiles; where there are fewer tiles than cores, also the rows."""
    tiles = op.g * ceil(op.k / t.depth) * ceil(op.n / t.width)
    rows_apart = max(1, cores // tiles)
    rounds = ceil(tiles * rows_apart / cores) if rows_apart > 1 else ceil(tiles / cores)
    return rounds * max(ceil(op.m / rows_apart), t.depth) + t.depth + t.width


def _vector_cycles(op: Operator, t: Template, cores: int) -> int:
    return ceil(op.m * op.k * op.g / (t.width * cores))


def _moving_cycles(op: Operator, t: Template) -> int:
    buffer = t.buffer_mib * MIB / BYTES
    if op.unit is Unit.VECTOR:
        elements = max(0.0, 2.0 * op.m * op.g - buffer)
    else:
        once = float(op.m * op.k + op.k * op.n + op.m * op.n)
        blocked = 2.0 * op.m * op.k * op.n / sqrt(buffer)
        elements = op.g * (once if once <= buffer else max(once, blocked))
    return ceil(elements * BYTES / HBM_BYTES_PER_S * CLOCK_HZ)


_COMPUTE = {Unit.TENSOR: _tensor_cycles, Unit.VECTOR: _vector_cycles}
