"""Forecasts of the same operators on two devices, of each of which its vendor's tables teach.

Set beside one another they say how much longer an operator takes there than here: what both are off
by for its shape falls out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cost.forecast.learned import Constants, shipped
from paceline.cost.forecast.sheet import Sheet
from paceline.cost.forecast.tasks import keys, task_of
from paceline.cost.forecast.works import Timed, forecast, forecastable
from paceline.graph.work import Work


@dataclass(frozen=True, eq=False)
class Both:
    """Nanoseconds of each operator on both devices; NaN where one of them has no forecast."""

    here_ns: NDArray[np.float64]
    there_ns: NDArray[np.float64]


def forecast_both(
    works: Sequence[Work], here: Sheet, there: Sheet, constants: Constants | None = None
) -> Both:
    constants = constants or shipped()
    known = [
        at
        for at, work in enumerate(works)
        if taught(work, here, constants) and taught(work, there, constants)
    ]
    found = [np.full(len(works), np.nan) for _ in range(2)]
    if known:
        mine, alike = [works[at] for at in known], constants.alike_to((here.name, there.name))
        for column, sheet in zip(found, (here, there)):
            column[known] = forecast(mine, sheet, alike, Timed.CALL).dur_ns
    return Both(*found)


def taught(work: Work, sheet: Sheet, constants: Constants) -> bool:
    """Whether devices of the same vendor taught how long the operator takes."""
    if not forecastable(work, sheet):
        return False
    key = constants.first_of(keys(task_of(work), work.dtype, sheet.vendor))
    return key is not None and key.endswith(f".{sheet.vendor.value}")
