"""`LayerTable`: forward and backward seconds of every layer that a search meets, on any template.

The native core prices and schedules all of them in one call; `estimate.py` and `schedule.py` are
the definition of what it computes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from paceline.engine import native
from paceline.place.hardware.estimate import BYTES, MIB, Operator
from paceline.place.hardware.models import Chained
from paceline.place.hardware.plan import AcceleratorFleet, LayerTimes
from paceline.place.hardware.template import CLOCK_HZ, HBM_BYTES_PER_S, Template
from paceline.place.operators.problem import Ints, PlacementError


class LayerTable:
    """Of the layers of some models, at every micro-batch and tensor width of a fleet."""

    def __init__(self, models: Iterable[Chained], fleet: AcceleratorFleet) -> None:
        core = native()
        if core is None:
            raise PlacementError(
                "searching for hardware needs the native core, which is not built or is turned "
                "off; install Paceline with a C++ compiler, and unset PACELINE_ENGINE"
            )
        self._layers = list(
            dict.fromkeys(
                layer
                for model in models
                for batch in fleet.micro_batches
                for width in model.widths(fleet.most_width)
                for layer in model.chain(batch, width)
            )
        )
        parts = [part for layer in self._layers for part in (layer.forward, layer.backward)]
        self._operators = core.Operators.of(_columns(parts))

    def times(self, template: Template) -> tuple[LayerTimes, LayerTimes]:
        """By a lower bound of each makespan, and by a greedy schedule."""
        low, greedy = self._operators.makespans(_accelerator(template))
        return self._by_layer(low), self._by_layer(greedy)

    def _by_layer(self, cycles: list[int]) -> LayerTimes:
        seconds = [count / CLOCK_HZ for count in cycles]
        return dict(zip(self._layers, zip(seconds[::2], seconds[1::2]))).__getitem__


@dataclass(frozen=True, eq=False)
class _Columns:
    """Operators of all workloads as flat arrays: one row an operator."""

    workload: NDArray[np.int32]
    unit: NDArray[np.uint8]
    m: Ints
    k: Ints
    n: Ints
    g: Ints
    after_ptr: NDArray[np.int32]
    after: NDArray[np.int32]


@dataclass(frozen=True)
class _Accelerator:
    """A template with the constants of the estimate."""

    tensor_cores: int
    vector_cores: int
    width: int
    depth: int
    buffer_elements: float
    element_bytes: float = BYTES
    bytes_per_s: float = HBM_BYTES_PER_S
    clock_hz: float = CLOCK_HZ


def _accelerator(template: Template) -> _Accelerator:
    return _Accelerator(
        template.tensor_cores,
        template.vector_cores,
        template.width,
        template.depth,
        template.buffer_mib * MIB / BYTES,
    )


def _columns(workloads: list[tuple[Operator, ...]]) -> _Columns:
    rows = [operator for workload in workloads for operator in workload]

    def starts(counts: Iterable[int]) -> NDArray[np.int32]:
        return np.array([0, *accumulate(counts)], np.int32)

    def column(name: str) -> Ints:
        return np.array([getattr(row, name) for row in rows], np.int64)

    return _Columns(
        workload=starts(map(len, workloads)),
        unit=column("unit").astype(np.uint8),
        m=column("m"),
        k=column("k"),
        n=column("n"),
        g=column("g"),
        after_ptr=starts(len(row.after) for row in rows),
        after=np.array([before for row in rows for before in row.after], np.int32),
    )
