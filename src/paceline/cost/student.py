"""Student's t: how many standard errors to either side hold the truth, where few values told them.

Freedoms may be fractions, as Welch and Satterthwaite find them for a sum of several errors.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

_FREEDOM: Final = np.array((1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10, 20, np.inf))
_T90: Final = (6.314, 4.796, 3.705, 2.920, 2.353, 2.132, 2.015, 1.943, 1.860, 1.812, 1.725, 1.645)
_T95: Final = (12.706, 8.649, 6.017, 4.303, 3.182, 2.776, 2.571, 2.447, 2.306, 2.228, 2.086, 1.960)


def t90(freedom: float) -> float:
    """Of an interval that holds it in nine of ten cases."""
    return _between(freedom, _T90)


def t95(freedom: float) -> float:
    """In nineteen of twenty."""
    return _between(freedom, _T95)


def joint_freedom(parts: Iterable[tuple[float, float]]) -> float:
    """Of a sum of errors, each given as its variance and its own freedom."""
    told = [(variance, freedom) for variance, freedom in parts if variance > 0]
    if not told:
        return float("inf")
    together = sum(variance for variance, _ in told) ** 2
    return together / sum(variance**2 / freedom for variance, freedom in told)


def _between(freedom: float, table: tuple[float, ...]) -> float:
    """t is nearly a line over one by the freedom."""
    return float(np.interp(-1 / max(freedom, 1.0), -1 / _FREEDOM, table))
