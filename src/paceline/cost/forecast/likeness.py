"""How much a device that nobody measured takes after each one that was.

    w_i = exp(-d_i^2 / (2 WIDTH^2))

d is the distance between the logarithms of the figures that the operator goes by (`Method.traits`).
An H200 is an H100 with a faster memory and runs the same kernels: what was measured of the one
beyond the formulas holds for the other. Devices that are like none have the formulas, and what all
taught.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from paceline.cost.forecast.sheet import Sheet
from paceline.graph.kinds import DType

Traits = tuple[float, ...]

WIDTH: Final = 0.5
"""As a share: devices whose rates differ by a factor of 1.65 are alike by 0.6."""
LEAST: Final = 0.05
"""Less likeness is none."""


def of_compute(sheet: Sheet, dtype: DType) -> Traits:
    """What kernels go by."""
    peak = sheet.matrix_flops.get(dtype) or sheet.vector_flops or 1.0
    return tuple(float(np.log(one)) for one in (peak, sheet.memory_bytes_per_s, sheet.units))


def of_links(sheet: Sheet, dtype: DType) -> Traits:
    """What collectives within a host go by: the link above all, whose generation comes with that of
    the memory."""
    link, memory = max(sheet.link_bytes_per_s, 1.0), sheet.memory_bytes_per_s
    return 2 * float(np.log(link)), float(np.log(memory))


def likeness(mine: Traits, others: Sequence[Traits]) -> list[float]:
    """To each of the others; 0 to those that are too far."""
    found = [
        float(np.exp(-sum((a - b) ** 2 for a, b in zip(mine, each)) / (2 * WIDTH**2)))
        for each in others
    ]
    return [like if like >= LEAST else 0.0 for like in found]
