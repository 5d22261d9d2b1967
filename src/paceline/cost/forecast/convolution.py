"""Convolutions: the fastest of an implicit matrix product and Winograd's form of it.

As a product they have b x places rows, channels_out columns and channels_in x kernel to sum over.
Winograd's F(2x2, 3x3) does 4/9 of the arithmetic on tiles of 2 x 2 places, of which those at an odd
border are half empty, and moves 16/9 of the data twice (Lavin and Gray, 2016).
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
    joined,
    logs,
)
from paceline.graph.kinds import DType
from paceline.graph.work import element_bytes

_COEFFICIENTS: Final = (
    Coefficient("launch_s", 60e-6, 0.4),
    Coefficient("arithmetic", 0.75, 0.1, 1.0),
    Coefficient("winograd", 0.55, 0.4, 1.1),
    Coefficient("memory", 0.7, 0.1, 1.0),
    Coefficient("few_blocks", 0.3, 1.0),
    Coefficient("ends", 40.0, 0.7),
    Coefficient("transform", 1.0, 0.3),
    Coefficient("overlap", 3.0, 0.15),
    Coefficient("power", 1.0, 0.15),
)
_MOMENT_S: Final = 1e-3


def _estimate(question: ForecastQuestion, values: Values) -> Estimate:
    dims, sheet = question.dims, question.sheet
    b, cin, cout, kernel = (dims[c] for c in ("b", "channels_in", "channels_out", "kernel"))
    places_in, places = dims["size_in"], dims["size_out"]
    size = np.float32(element_bytes(question.dtype))
    peak = sheet.peak(question.dtype)
    held = sheet.sustained() if question.dtype is DType.FLOAT32 else 1.0
    slower = np.float32(min(1.0, held * values["power"] / 0.85))
    data, weight, out = b * cin * places_in, cin * cout * kernel, b * cout * places
    rate = np.float32(peak / sheet.units * values["arithmetic"])
    memory_rate = np.float32(sheet.memory_bytes_per_s * values["memory"])
    few, ends = np.float32(values["few_blocks"]), np.float32(values["ends"])
    found = []
    for x, y in ((128, 128), (128, 64), (64, 64), (32, 128)):
        blocks = np.ceil(b * places / x) * np.ceil(cout / y)
        queue = np.ceil(blocks / np.float32(sheet.units))
        work = queue * (2 * x * y) * (cin * kernel + ends) / rate * (queue + few) / queue
        found.append(joined(values["overlap"], _held(work, slower),
                            (data + weight + out) * size / memory_rate))  # fmt: skip
    side = np.sqrt(places)
    tiles = b * np.ceil(side / 2) ** 2
    blocks = np.ceil(tiles / 32) * np.ceil(cout / 64)
    queue = np.ceil(blocks / np.float32(sheet.units))
    share = np.float32(values["winograd"] / values["arithmetic"])
    work = queue * (2 * 16 * 32 * 64) * (cin + 8) / (rate * share) * (queue + few) / queue
    moved = (data + out + 16 / 9 * weight * (1 + np.float32(values["transform"]))) * size
    quick = joined(values["overlap"], _held(work, slower), moved / memory_rate)
    found.append(np.where((kernel == 9) & (dims["stride"] == 1), quick, found[0]))
    fastest = np.minimum.reduce(found)
    launch = np.full_like(fastest, values["launch_s"])
    direct = 2 * out * cin * kernel / np.float32(peak)
    traffic = (data + weight + out) * size
    waves = b * places * cout / np.float32(sheet.units * 64 * 64)
    features = [
        logs(b, cin, cout, places, fastest / launch, direct / (traffic / memory_rate),
             traffic / np.float32(sheet.cache_bytes), weight * size / np.float32(sheet.cache_bytes),
             waves, np.ceil(waves) / waves, tiles * 4 / (b * places), queue, quick / found[0],
             quick / found[2], blocks / np.float32(sheet.units), kernel, dims["stride"]),
        np.stack([cin % 4 == 0, cout % 4 == 0, side % 2 == 0], axis=1).astype(np.float32),
    ]  # fmt: skip
    total = joined(3.0, fastest, launch)
    return Estimate(total, np.concatenate(features, axis=1).astype(np.float32))


def _held(work: Column, slower: np.float32) -> Column:
    """Arithmetic that outlasts a moment, at the clock that the power allows."""
    return np.asarray(work * slower ** -(work / (work + np.float32(_MOMENT_S))), np.float32)


CONVOLUTION = Method(
    "convolution",
    ("b", "channels_in", "channels_out", "size_in", "size_out", "kernel", "stride"),
    _COEFFICIENTS,
    _estimate,
)
