"""Pointwise operators, copies and reductions: bytes over the memory's rate, waves, and a launch.

What was just written and fits the cache is read from there: the share of the bytes that still goes
to memory grows with bytes over cache.
"""

from typing import Final

import numpy as np

from paceline.cost.fit import Coefficient
from paceline.cost.forecast.method import (
    Estimate,
    ForecastQuestion,
    Method,
    Values,
    from_memory,
    joined,
    logs,
)

_COEFFICIENTS: Final = (
    Coefficient("launch_s", 25e-6, 1.0),
    Coefficient("memory", 0.8, 0.1, 1.0),
    Coefficient("cached", 0.5, 0.5, 1.0),
    Coefficient("start_s", 3e-6, 0.7),
    Coefficient("overlap", 3.0, 0.2),
)
OPERATORS: Final = (
    "add", "addu", "div", "divu", "gelu", "mul", "mulu", "pow", "powu", "relu", "tanh",
)  # fmt: skip
"""Operators that the learned part tells apart; any other is -1 and taken for a typical one."""


def _estimate(question: ForecastQuestion, values: Values) -> Estimate:
    dims, sheet = question.dims, question.sheet
    count, inputs, operator = dims["count"], dims["inputs"], dims["operator"]
    moved = dims["size_bytes"]
    rate = sheet.memory_bytes_per_s * values["memory"]
    memory = from_memory(moved, sheet.cache_bytes, values["cached"]) / np.float32(rate)
    memory = memory + np.float32(values["start_s"])
    launch = np.full_like(memory, values["launch_s"])
    seconds = joined(values["overlap"], memory, launch)
    waves = count / np.float32(sheet.units * 1024)
    which = (operator[:, None] == np.arange(len(OPERATORS), dtype=np.float32)).astype(np.float32)
    features = [
        logs(moved / launch / np.float32(rate), moved / np.float32(sheet.cache_bytes), waves),
        inputs[:, None],
        which,
    ]
    return Estimate(seconds, np.concatenate(features, axis=1).astype(np.float32))


ELEMENTS = Method(
    "elements", ("count", "inputs", "size_bytes", "operator"), _COEFFICIENTS, _estimate
)
