"""Ops that nobody recorded, on GPUs: what a forecast of their operator says.

It needs to know each operator's dimensions (`Graph.works`) and the device's data sheet alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.cluster import Device
from paceline.cost.forecast import (
    Constants,
    Sheet,
    forecast,
    forecastable,
    keys,
    sheet_of,
    shipped,
)
from paceline.cost.forecast.channels import with_channels_last
from paceline.cost.forecast.tasks import task_of
from paceline.graph import NONE, Graph
from paceline.graph.graph import Int64
from paceline.graph.variants import Variant
from paceline.graph.work import Work


@dataclass(frozen=True, eq=False)
class Forecasted:
    """The rows that a forecast knows, and how long each takes in ns."""

    rows: Int64
    dur_ns: NDArray[np.float64]


def forecasted(
    graph: Graph, device: Device, rows: Int64, constants: Constants | None = None
) -> Forecasted:
    """Of these rows, those whose operator has a forecast on the device."""
    sheet, work, constants = sheet_of(device), graph.ops.work[rows], constants or shipped()
    used = np.unique(work[work != NONE])
    known = [row for row in used.tolist() if _is_told(graph.works[row].work, sheet, constants)]
    if not known:
        return Forecasted(rows[:0], np.zeros(0))
    works = [graph.works[row].work for row in known]
    dur_ns = np.full(len(graph.works) + 1, np.nan)
    dur_ns[known] = forecast(works, sheet, constants).dur_ns
    if Variant.CHANNELS_LAST in graph.facts.variants:
        dur_ns[known] = with_channels_last(works, dur_ns[known], sheet)
    mine = dur_ns[work]  # NONE is -1, the last: not known
    has = ~np.isnan(mine)
    return Forecasted(rows[has], mine[has])


def _is_told(work: Work, sheet: Sheet, constants: Constants) -> bool:
    """Whether there is a method, and a table that taught it: of attention in float32 none does."""
    if not forecastable(work, sheet):
        return False
    return constants.first_of(keys(task_of(work), work.dtype, sheet.vendor)) is not None
