"""Forecasts of `Work`: by the method and constants of its kind, and what was refined."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np

from paceline.cost.forecast.asked import Forecast, Kind, ask, refined_by
from paceline.cost.forecast.batch_norms import batch_norms
from paceline.cost.forecast.channels import ordered_s
from paceline.cost.forecast.learned import Constants, Refinement, shipped
from paceline.cost.forecast.method import ForecastQuestion
from paceline.cost.forecast.moved import moved
from paceline.cost.forecast.sheet import Sheet
from paceline.cost.forecast.tasks import (
    BATCH_NORM,
    LIKE,
    OF_FAMILY,
    STANDS_FOR,
    TASKS,
    keys,
    keys_in,
    named_keys,
    task_of,
    times_of,
)
from paceline.graph.kinds import DType
from paceline.graph.work import Family, Work

_ON_MATRIX_UNITS: Final = (
    Family.MATRIX, Family.GROUPED_MATRIX, Family.CONVOLUTION, Family.ATTENTION,
)  # fmt: skip

_BY_BYTES: Final = frozenset({"softmax", "norm", "pointwise", "copy", "relaid"})
_TIMED_FROM_HOST: Final = DType.FLOAT32
"""Tables of this type are of calls that a host timed; those of others are of kernels."""
_COPIED: Final = (DType.FLOAT32, DType.BFLOAT16)
"""Types in which copies are measured: those of all others move bytes as they do."""


class Timed(Enum):
    """From when to when an operator is timed."""

    KERNEL = "kernel"  # on the device alone, as traces tell it
    CALL = "call"  # with its host's launch, where that lasts longer


def forecast(
    works: Sequence[Work],
    sheet: Sheet,
    constants: Constants | None = None,
    timed: Timed = Timed.KERNEL,
) -> Forecast:
    """Nanoseconds of each operator on a device.

    Tables that were timed from the host hold its launches, of their own hosts. So they serve
    kernels on the devices that are in them; on any other one what the memory decides is told by
    bytes, and products and convolutions have the device's least time in place of the launch.
    """
    constants = constants or shipped()
    rows: dict[tuple[str, DType], list[int]] = defaultdict(list)
    for at, work in enumerate(works):
        rows[(task_of(work), _type_of(work, sheet))].append(at)
    dur, low, high = (np.zeros(len(works), np.float32) for _ in range(3))
    rests = set()
    for (task, dtype), mine in rows.items():
        kernel = timed is Timed.KERNEL and _from_host(task, dtype, sheet, constants)
        alone = kernel or task == BATCH_NORM
        asked = _alone if alone else _as_tabled
        same = _Same(task, dtype, [_in_type(works[at], dtype) for at in mine])
        part = asked(same, sheet, constants)
        if alone or not _host_timed(task, dtype, sheet, constants):
            part = refined_by(part, same.refinement(sheet, constants), sheet.name)
        for column, told in ((dur, part.dur_ns), (low, part.low_ns), (high, part.high_ns)):
            column[mine] = told
        rests.add(part.rests_on)
    return Forecast(dur, low, high, "; ".join(sorted(rests)))


@dataclass(frozen=True)
class _Same:
    """Operators of one task and type."""

    task: str
    dtype: DType
    works: Sequence[Work]

    def question(self, sheet: Sheet) -> ForecastQuestion:
        method, columns = TASKS[self.task]
        found = np.array([columns(work) for work in self.works], np.float32).T
        return ForecastQuestion(dict(zip(method.columns, found)), self.dtype, sheet)

    def kind(self, sheet: Sheet, launch_s: float | None = None) -> Kind:
        method, _ = TASKS[self.task]
        return Kind(method, keys(self.task, self.dtype, sheet.vendor), launch_s)

    def refinement(self, sheet: Sheet, constants: Constants) -> Refinement | None:
        """By bytes one type tells of all; in products and attention none tells of another."""
        like = (self.dtype, STANDS_FOR.get(self.dtype, self.dtype))
        own = named_keys(self.task, dict.fromkeys(like), sheet.vendor)
        if self.task not in _BY_BYTES:
            return constants.refinement(sheet.name, own)
        copied = named_keys(self.task, _COPIED, sheet.vendor) if self.task in LIKE else ()
        found = keys(self.task, self.dtype, sheet.vendor)
        return constants.refinement(sheet.name, (*own, *copied, *found))


def _type_of(work: Work, sheet: Sheet) -> DType:
    """In which the device computes: one without TF32 runs such a convolution in float32."""
    rounds = work.family is Family.CONVOLUTION and work.dtype is DType.TFLOAT32
    return DType.FLOAT32 if rounds and not sheet.rate(DType.TFLOAT32) else work.dtype


def _in_type(work: Work, dtype: DType) -> Work:
    return work if work.dtype is dtype else replace(work, dtype=dtype)


def _as_tabled(
    same: _Same, sheet: Sheet, constants: Constants, launch_s: float | None = None
) -> Forecast:
    part = ask(same.kind(sheet, launch_s), same.question(sheet), constants)
    times = np.array([times_of(work) for work in same.works], np.float32)
    return Forecast(part.dur_ns * times, part.low_ns * times, part.high_ns * times, part.rests_on)


def _alone(same: _Same, sheet: Sheet, constants: Constants) -> Forecast:
    """Without the host's launch."""
    if same.task == BATCH_NORM:
        return batch_norms(same.works, sheet)
    if same.task in _BY_BYTES:
        return moved(same.works, sheet)
    part = _as_tabled(same, sheet, constants, sheet.least_s)
    more = np.array([ordered_s(work, sheet) for work in same.works], np.float32) * np.float32(1e9)
    return Forecast(part.dur_ns + more, part.low_ns + more, part.high_ns + more, part.rests_on)


def _host_timed(task: str, dtype: DType, sheet: Sheet, constants: Constants) -> bool:
    """Whether the constants that serve are of calls that a host timed."""
    key = constants.first_of(keys(task, dtype, sheet.vendor))
    return key in keys_in(task, (_TIMED_FROM_HOST,), sheet.vendor)


def _from_host(task: str, dtype: DType, sheet: Sheet, constants: Constants) -> bool:
    """Whether the constants that serve hold launches of other devices' hosts."""
    own, tabled = (keys_in(task, (one,), sheet.vendor) for one in (dtype, _TIMED_FROM_HOST))
    key = constants.first_of(keys(task, dtype, sheet.vendor))
    if key not in tabled:
        return False
    return key not in own or constants.learned[key].known_as(sheet.name) is None


def forecastable(work: Work, sheet: Sheet) -> bool:
    """Whether there is a method for the operator, and the sheet has what it needs."""
    return (
        work.is_known
        and (work.family in (Family.MATRIX, Family.COPY) or work.family in OF_FAMILY)
        and (work.family not in _ON_MATRIX_UNITS or _has_type(work, sheet))
    )


def _has_type(work: Work, sheet: Sheet) -> bool:
    """Of products in TF32 no table tells."""
    if work.family is Family.CONVOLUTION:
        return sheet.rate(_type_of(work, sheet)) > 0
    return work.dtype in sheet.matrix_flops
