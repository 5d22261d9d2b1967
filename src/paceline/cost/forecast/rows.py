"""Softmax and normalisations: rows worked out together, several passes over what is kept near.

A row of up to 1,024 elements stays in one warp's registers (one pass); a longer one is read again
by a block, from the cache where the rows under way fit into it.
"""

from typing import Final

import numpy as np

from paceline.cost.fit import Coefficient
from paceline.cost.forecast.method import (
    Column,
    Estimate,
    ForecastQuestion,
    Method,
    Values,
    from_memory,
    joined,
    logs,
)

_COEFFICIENTS: Final = (
    Coefficient("launch_s", 30e-6, 1.0),
    Coefficient("memory", 0.8, 0.1, 1.0),
    Coefficient("cached", 0.5, 0.5, 1.0),
    Coefficient("start_s", 4e-6, 0.7),
    Coefficient("row_s", 1e-6, 0.8),
    Coefficient("again", 0.3, 0.7),
    Coefficient("overlap", 3.0, 0.2),
)
_IN_REGISTERS: Final = 1024


def _estimate(question: ForecastQuestion, values: Values) -> Estimate:
    dims, sheet = question.dims, question.sheet
    rows, columns, moved = dims["rows"], dims["columns"], dims["size_bytes"]
    long = columns > _IN_REGISTERS
    passes = 1 + long * np.float32(values["again"])
    rate = np.float32(sheet.memory_bytes_per_s * values["memory"])
    memory = from_memory(moved, sheet.cache_bytes, values["cached"]) * passes / rate
    at_once = np.float32(sheet.units) * np.where(long, 2, 16).astype(np.float32)
    waves = np.ceil(rows / at_once)
    seconds = joined(values["overlap"], memory, waves * np.float32(values["row_s"]))
    seconds = seconds + np.float32(values["start_s"])
    launch = np.full_like(seconds, values["launch_s"])
    features = [
        logs(seconds / launch, moved / np.float32(sheet.cache_bytes), rows / at_once, columns,
             rows / np.float32(sheet.units), _next_power(columns) / columns, memory / launch),
        np.stack([long, columns % 4 == 0], axis=1).astype(np.float32),
    ]  # fmt: skip
    total = joined(values["overlap"], seconds, launch)
    return Estimate(total, np.concatenate(features, axis=1).astype(np.float32))


def _next_power(columns: Column) -> Column:
    return np.asarray(np.exp2(np.ceil(np.log2(columns))), np.float32)


ROWS = Method("rows", ("rows", "columns", "size_bytes"), _COEFFICIENTS, _estimate)
