"""`Method`: how one kind of operator is forecast: its columns, its formulas, what a net sees."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.cost.fit import Coefficient
from paceline.cost.forecast.likeness import Traits, of_compute
from paceline.cost.forecast.sheet import Sheet
from paceline.graph.kinds import DType

Column = NDArray[Any]  # float32; of other types only what chooses rows
Columns = Mapping[str, Column]
Values = Mapping[str, float]


@dataclass(frozen=True, eq=False)
class ForecastQuestion:
    """Operators of one family and type on one device. `dims` are the columns of the family."""

    dims: Columns
    dtype: DType
    sheet: Sheet
    variant: int = 0  # which of a type's kernels: 1 is block scaling

    def __len__(self) -> int:
        return len(next(iter(self.dims.values())))


@dataclass(frozen=True, eq=False)
class Estimate:
    """Seconds by the formulas, and what a net may correct them by: one column per feature."""

    seconds: Column
    features: Column


@dataclass(frozen=True)
class Method:
    """`columns` name the dimensions; `estimate` is pure and works on whole columns; `traits` are
    the figures of a data sheet by which devices are alike for it."""

    name: str
    columns: tuple[str, ...]
    coefficients: tuple[Coefficient, ...]
    estimate: Callable[[ForecastQuestion, Values], Estimate]
    traits: Callable[[Sheet, DType], Traits] = of_compute


def logs(*columns: Column) -> Column:
    """Features on a scale where a factor is a distance."""
    return np.stack([np.log(np.maximum(one, np.float32(1e-12))) for one in columns], axis=1)


def from_memory(size_bytes: Column, cache_bytes: float, cached: float) -> Column:
    """Bytes as if all came from memory: what the cache holds from before costs `cached` of it."""
    outside = size_bytes / (size_bytes + np.float32(cache_bytes))
    return np.asarray(size_bytes * (outside + (1 - outside) * np.float32(cached)), np.float32)


def joined(power: float, *times: Column) -> Column:
    """What takes longest, and something of the rest, which does not overlap fully."""
    longest = times[0]
    for one in times[1:]:
        longest = np.maximum(longest, one)
    longest = np.maximum(longest, np.float32(1e-12))
    total = sum(((one / longest) ** np.float32(power) for one in times), np.float32(0))
    return np.asarray(longest * total ** np.float32(1 / power), np.float32)


def cubed(*times: Column) -> Column:
    """`joined` with power 3, by multiplications alone."""
    longest = np.maximum.reduce(times)
    total = np.zeros_like(longest)
    for one in times:
        share = one / longest
        total += share * share * share
    return np.asarray(longest * np.cbrt(total), np.float32)
