"""Kernels work for the innermost operator around their launch; the rest by likes and by names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from paceline.graph import NONE, DType
from paceline.graph.work import Elements, Family, Launch, Recorded, Work, moved, unknown
from paceline.trace.phases import covering
from paceline.trace.shapes import names, stated
from paceline.trace.shapes.launches import launch_of
from paceline.trace.shapes.operators import Operators, typed
from paceline.trace.shapes.strays import recognised
from paceline.trace.trace import Bool, Category, Int64
from paceline.trace.view import RankView, call_column

_TF32: Final = ("tf32", "tensorop_s1688", "tensorop_s16816", "s1688gemm")
"""In names of kernels for float32: that their operands are rounded first."""
_PRODUCTS: Final = (Family.MATRIX, Family.CONVOLUTION, Family.ATTENTION, Family.GROUPED_MATRIX)
_WHOLE: Final = 0.5
"""Elements that a grid has room for, as a multiple of what shapes tell: below this the two speak
of different tensors. Kernels cut large tensors in two, and so may have less room than all."""


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """One row an event of the trace."""

    recorded: tuple[Recorded, ...]
    row: Int64  # of `recorded`
    call: Int64  # equal for kernels of one call
    stray: Bool  # known by its likes alone, so that the other kernels of its call are not known
    like: Int64  # equal for kernels of one name and work
    notes: tuple[str, ...]


def kernels_of(view: RankView, found: Operators) -> DeviceWork:
    events = view.trace.events
    kernels = np.flatnonzero(np.isin(events.category, (Category.KERNEL, Category.MEMSET)))
    asked = call_column(view)[kernels]
    operator = _operators(view, found.of_event, asked)
    known = np.where(operator == NONE, NONE, found.of_event[operator])
    launches = _Launches.of(view, kernels, asked)
    wrong = _contradicts(launches, found, known, operator)
    known = np.where(wrong, NONE, known)
    likely = recognised(
        events.name[kernels].astype(np.int64),
        events.form[kernels].astype(np.int64),
        events.lane[kernels].astype(np.int64),
        known,
    )
    guessing = _operators(view, found.guess_of_event, asked)
    guess = np.where(guessing == NONE, NONE, found.guess_of_event[guessing])
    likely = np.where((likely == NONE) & ~launches.has_own_family, guess, likely)
    alone = _fills_alone(view, found, kernels, (known, likely))
    known, likely = (np.where(alone, NONE, each) for each in (known, likely))
    recorded, rows = _recorded(launches, found.works, known, likely)
    row = np.full(len(events), NONE, np.int64)
    row[kernels] = rows
    call = np.arange(len(events)) + len(events)
    shared = np.where(known == NONE, np.where(likely == guess, guessing, NONE), operator)
    call[kernels] = np.where(shared == NONE, call[kernels], shared)
    recorded, row = _with_copies(view, recorded, row)
    stray = np.zeros(len(events), np.bool_)
    stray[kernels] = (known == NONE) & (likely != NONE) & (shared == NONE)
    like = np.full(len(events), NONE, np.int64)
    work = np.where(known == NONE, likely, known)
    like[kernels] = np.where(work == NONE, NONE, events.name[kernels] * len(found.works) + work)
    notes = tuple(_notes(int(wrong.sum()), len(kernels)))
    return DeviceWork(recorded, row, call, stray, like, notes)


def _operators(view: RankView, of_event: Int64, asked: Int64) -> Int64:
    """The innermost operator around each launch that has work in `of_event`; NONE without."""
    events = view.trace.events
    lane = np.where(asked == NONE, NONE, events.lane[asked]).astype(np.int32)
    at = np.where(asked == NONE, 0, events.start_ns[asked])
    operator = covering(view, of_event != NONE, lane, at)
    return np.where(asked == NONE, NONE, operator)


@dataclass(frozen=True, eq=False)
class _Launches:
    """Distinct kernels by name and launch, and which of them each is."""

    names: Sequence[str]
    launches: Sequence[Launch]
    stated: Sequence[Work | None]  # by the trace itself
    which: Int64

    @staticmethod
    def of(view: RankView, kernels: Int64, asked: Int64) -> "_Launches":
        events, trace = view.trace.events, view.trace
        driver = np.where(asked == NONE, NONE, events.name[asked])
        columns = np.stack([events.name[kernels], events.form[kernels], driver])
        distinct, which = np.unique(columns, axis=1, return_inverse=True)
        found = [
            launch_of(
                trace.forms[form] if form != NONE else b"{}",
                trace.names[call] if call != NONE else "",
            )
            for _, form, call in distinct.T.tolist()
        ]
        spelled = [trace.names[name] for name in distinct[0].tolist()]
        told = [
            stated.work_of(trace.forms[form]) if form != NONE else None
            for form in distinct[1].tolist()
        ]
        return _Launches(spelled, found, told, which.reshape(-1))

    @property
    def has_own_family(self) -> Bool:
        """Products by name: shapes that no rule reads cannot tell their inner dimension."""
        own = [names.family_of(name) in _PRODUCTS for name in self.names]
        return np.array(own or [False], np.bool_)[self.which]


def _contradicts(launches: _Launches, found: Operators, known: Int64, operator: Int64) -> Bool:
    """Element-wise kernels whose grids have no room for the elements that shapes tell."""
    each = map(names.capacity_of, launches.names, launches.launches)
    room = np.array([c.elements if c else 0 for c in each] or [0], np.int64)[launches.which]
    counts = [_elements(work) for _, work in found.works]
    told = np.where(known == NONE, 0, np.array(counts or [0], np.int64)[known])
    _, call = np.unique(operator, return_inverse=True)
    whole = np.bincount(call.reshape(-1), room)[call.reshape(-1)] if len(call) else room
    wrong: Bool = (room > 0) & (told > 0) & (whole < _WHOLE * told)
    return wrong


def _fills_alone(
    view: RankView, found: Operators, kernels: Int64, rows: tuple[Int64, Int64]
) -> Bool:
    """Fills of memory that are no part of a product: libraries clear what they then add to."""
    products = [work.family in _PRODUCTS for _, work in found.works]
    known, likely = rows
    row = np.where(known == NONE, likely, known)
    part = (row != NONE) & np.array([*products, False])[row]
    alone: Bool = (view.trace.events.category[kernels] == Category.MEMSET) & ~part
    return alone


def _elements(work: Work) -> int:
    return work.dims.count if isinstance(work.dims, Elements) else 0


def _recorded(
    launches: _Launches, works: Sequence[tuple[str, Work]], known: Int64, likely: Int64
) -> tuple[tuple[Recorded, ...], Int64]:
    """Distinct recorded work, and the row of each kernel; each combination is made once."""
    columns = np.stack([launches.which, known, likely])
    distinct, which = np.unique(columns, axis=1, return_inverse=True)
    rows: dict[Recorded, int] = {}
    place = [
        rows.setdefault(_made(launches, kernel, works, here, there), len(rows))
        for kernel, here, there in distinct.T.tolist()
    ]
    return tuple(rows), np.array(place, np.int64)[which.reshape(-1)]


def _made(
    launches: _Launches, kernel: int, works: Sequence[tuple[str, Work]], here: int, there: int
) -> Recorded:
    """`here`: the work that the launch tells; `there`: that which the kernel's likes tell."""
    name, launch = launches.names[kernel], launches.launches[kernel]
    number = here if here != NONE else there
    if number != NONE:
        operator, work = works[number]
        known = typed(work, names.type_of(name) or DType.FLOAT32)
        return Recorded(operator, _rounded(known, name), launch, inferred=here == NONE)
    by_trace = launches.stated[kernel]
    if by_trace is not None:
        return Recorded(name, by_trace, launch)
    told = names.work_of(name, launch)
    return Recorded("", told or unknown(names.family_of(name), names.type_of(name)), launch, True)


def _rounded(work: Work, kernel: str) -> Work:
    """Products in float32 whose kernel rounds its operands to TF32."""
    if work.dtype is not DType.FLOAT32 or work.family not in _PRODUCTS:
        return work
    spelled = kernel.lower()
    rounds = any(part in spelled for part in _TF32)
    return replace(work, dtype=DType.TFLOAT32) if rounds else work


def _with_copies(
    view: RankView, recorded: tuple[Recorded, ...], row: Int64
) -> tuple[tuple[Recorded, ...], Int64]:
    """Memory copies and fills move the bytes that the driver says."""
    events = view.trace.events
    rows, row = {each: at for at, each in enumerate(recorded)}, row.copy()
    named = np.array([bool(each.operator) for each in recorded] + [False])[row]
    for category, reads in ((Category.MEMCPY, True), (Category.MEMSET, False)):
        moves = (events.category == category) & (events.size_bytes > 0) & ~named
        mine = np.flatnonzero(moves)
        sizes, which = np.unique(events.size_bytes[mine], return_inverse=True)
        places = [
            rows.setdefault(Recorded("", moved(size if reads else 0, size)), len(rows))
            for size in sizes.tolist()
        ]
        row[mine] = np.array(places, np.int64)[which.reshape(-1)]
    return tuple(rows), row


def _notes(wrong: int, kernels: int) -> list[str]:
    if not wrong:
        return []
    return [
        f"{wrong} of {kernels} kernels have no room in their grid for the elements that shapes "
        "tell; of these the kernel's name and grid are believed"
    ]
