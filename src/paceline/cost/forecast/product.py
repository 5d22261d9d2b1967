"""Matrix products: the tile that the library picks, its waves, its traffic, and its launch.

A candidate tile of x by y results, with the inner dimension cut in s parts, makes
b ceil(m/x) ceil(n/y) s blocks. The fullest processor works through q = ceil(blocks / units) of
them, at a share of its peak that the tile has and that too few blocks per processor cut down. A
wave of blocks walks along n first, so that its rows of tiles share one reading of the k x n
operand; where that operand does not fit the cache it is read again for the next rows. Each
candidate takes what its arithmetic, its memory and its operands from the cache take together; the
library is near the fastest (a soft minimum, of power 6). Arithmetic that outlasts a moment falls
to the clock that the power allows (`Sheet.sustained`).

Wrong where a library picks badly: cuBLAS on thin batched products (m or n below 32) is up to three
times slower than the best tile, which only the learned part knows.
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
    cubed,
    from_memory,
    logs,
)
from paceline.graph.kinds import DType
from paceline.graph.work import element_bytes

_TILES: Final = ((128, 128), (128, 64), (64, 128), (64, 64), (32, 128), (32, 32), (64, 64))
_SPLITS: Final = (1, 1, 1, 1, 1, 1, 8)
_MOMENT_S: Final = 1e-3
_MAXWELL_KERNELS_NM: Final = 16
"""Devices of this process and before run cuBLAS's kernels for Maxwell."""
_FAR_BYTES: Final = 48e3
"""Rows of an operand further apart than this are slow to address: a P100 falls from 65 to 28 % of
its peak between inner dimensions of 8,000 and 16,000, newer devices by a tenth."""

_COEFFICIENTS: Final = (
    Coefficient("launch_s", 20e-6, 1.0),
    Coefficient("arithmetic", 0.88, 0.06, 1.0),
    Coefficient("memory", 0.75, 0.1, 1.0),
    Coefficient("cached", 0.6, 0.3, 1.0),
    Coefficient("cache_rate", 1.0, 0.3),
    Coefficient("cache_share", 0.7, 1.0),
    Coefficient("few_blocks", 0.3, 0.5),
    Coefficient("ends", 40.0, 0.7),
    Coefficient("block_s", 1.5e-6, 0.7),
    Coefficient("narrow", 0.9, 0.3, 1.0),
    Coefficient("square64", 0.85, 0.3, 1.0),
    Coefficient("thin", 0.8, 0.3, 1.0),
    Coefficient("small", 0.5, 0.4, 1.0),
    Coefficient("split", 0.8, 0.3, 1.0),
    Coefficient("split_s", 4e-6, 0.7),
    Coefficient("power", 1.0, 0.15),
    Coefficient("older", 0.8, 0.05, 1.0),
    Coefficient("pitch", 0.15, 1.0),
    Coefficient("older_pitch", 1.0, 0.3),
    Coefficient("drift", 0.05, 1.0, 1.0),
)
_SHARES: Final = ("", "narrow", "narrow", "square64", "thin", "small", "split")


def _estimate(question: ForecastQuestion, values: Values) -> Estimate:
    dims, sheet = question.dims, question.sheet
    b, m, n, k = (dims[name] for name in ("b", "m", "n", "k"))
    size = np.float32(element_bytes(question.dtype))
    peak = sheet.peak(question.dtype)
    held = sheet.sustained() if question.dtype is DType.FLOAT32 else 1.0
    slower = np.float32(min(1.0, held * values["power"] / 0.85))
    left, right, out = b * m * k * size, b * n * k * size, b * m * n * size
    warm = from_memory(left + right + out, sheet.cache_bytes, values["cached"])
    warm = warm / (left + right + out)
    spills = _spills(right / b, sheet.cache_bytes * values["cache_share"])
    older = sheet.process_nm >= _MAXWELL_KERNELS_NM
    far = _spills(k * size, _FAR_BYTES) * np.float32(values["older_pitch" if older else "pitch"])
    speed = values["arithmetic"] * (values["older"] if older else 1.0)
    found, inverse = [], np.zeros_like(m)
    for (x, y), split, share in zip(_TILES, _SPLITS, _SHARES):
        rows, wide = np.ceil(m / x), np.ceil(n / y)
        blocks = b * rows * wide * split
        queue = np.ceil(blocks / np.float32(sheet.units))
        deep = np.ceil(k / split)
        rate = peak / sheet.units * speed * values.get(share, 1.0) / (1 + far)
        busy = queue / (queue + np.float32(values["few_blocks"]))
        work = queue * (2 * x * y / rate) * (deep + np.float32(values["ends"])) / busy
        if slower < 1:
            work = work * slower ** -(work / (work + np.float32(_MOMENT_S)))
        at_once = np.maximum(np.float32(sheet.units) / (wide * split), 1)
        again = np.maximum(rows / at_once, 1)
        moved = left + right * (1 + spills * (again - 1)) + out * (1 if split == 1 else 3)
        lost = _spills(x * k * size, sheet.cache_bytes * values["cache_share"])
        moved = moved + left * (wide - 1) * (lost * np.float32(values["drift"]))
        memory = moved * warm / np.float32(sheet.memory_bytes_per_s * values["memory"])
        fed = blocks * ((x + y) * size) * deep
        cache = fed / np.float32(sheet.units * sheet.clock_hz * 64 * values["cache_rate"])
        took = cubed(work, memory, cache)
        took = took + queue * np.float32(values["block_s"] / 2) + np.float32(values["block_s"])
        took = took + np.float32(values["split_s"] if split > 1 else 0)
        found.append(took)
    fastest = np.minimum.reduce(found)
    for took in found:
        near = fastest / took
        near = near * near * near
        inverse += near * near
    seconds = fastest / np.cbrt(np.sqrt(inverse))
    launch = np.float32(values["launch_s"])
    total = cubed(seconds, np.full_like(seconds, launch))
    arithmetic = 2 * b * m * n * k / np.float32(peak)
    traffic = (left + right + out) / np.float32(sheet.memory_bytes_per_s)
    features = np.concatenate(
        [
            logs(m, n, k, b, seconds / launch, arithmetic / traffic,
                 right / b / np.float32(sheet.cache_bytes),
                 (left + right + out) / np.float32(sheet.cache_bytes)),
            _waves(b, m, n, sheet.units),
            _aligned(m, n, k),
        ], axis=1)  # fmt: skip
    return Estimate(total, features.astype(np.float32))


def _spills(operand: Column, cache_bytes: float) -> Column:
    """0 where an operand stays in the cache, 1 where it is far larger."""
    ratio = operand / np.float32(cache_bytes)
    return np.asarray(ratio * ratio / (1 + ratio * ratio), np.float32)


def _waves(b: Column, m: Column, n: Column, units: float) -> Column:
    """How many waves two tiles make, how ragged the last is, and how much of a tile is empty."""
    columns = []
    for x, y in ((128, 128), (64, 64)):
        blocks = b * np.ceil(m / x) * np.ceil(n / y)
        waves = blocks / np.float32(units)
        columns += [waves, np.ceil(waves) / waves, blocks * (x * y) / (b * m * n)]
    return logs(*columns)


def _aligned(*dims: Column) -> Column:
    """1 where a dimension is a multiple of 4, 8 and 64: what wide loads need."""
    return np.stack([(one % step == 0) for one in dims for step in (4, 8, 64)], axis=1).astype(
        np.float32
    )


PRODUCT = Method("product", ("b", "m", "n", "k"), _COEFFICIENTS, _estimate)
