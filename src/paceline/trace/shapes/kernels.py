"""Kernels work for the innermost operator around their launch; the rest by likes and by names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from paceline.graph import NONE, DType
from paceline.graph.work import Recorded, Work, moved, unknown
from paceline.trace.phases import covering
from paceline.trace.shapes import names
from paceline.trace.shapes.contradictions import Ran, no_room, too_much
from paceline.trace.shapes.limits import PRODUCTS
from paceline.trace.shapes.operators import Operators, typed
from paceline.trace.shapes.seen import Launches, SeenKernels
from paceline.trace.shapes.strays import recognised
from paceline.trace.trace import Bool, Category, Int64
from paceline.trace.view import RankView

_TF32: Final = ("tf32", "tensorop_s1688", "tensorop_s16816", "s1688gemm")
"""In names of kernels for float32: that their operands are rounded first."""


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
    seen = SeenKernels.of(view)
    kernels, told = seen.kernels, _told(seen, found)
    recorded, rows = _recorded(seen.launches, found.works, told.known, told.likely)
    row = np.full(len(events), NONE, np.int64)
    row[kernels] = rows
    call = np.arange(len(events)) + len(events)
    call[kernels] = np.where(told.shared == NONE, call[kernels], told.shared)
    recorded, row = _with_copies(view, recorded, row)
    stray = np.zeros(len(events), np.bool_)
    stray[kernels] = (told.known == NONE) & (told.likely != NONE) & (told.shared == NONE)
    like = np.full(len(events), NONE, np.int64)
    work = np.where(told.known == NONE, told.likely, told.known)
    like[kernels] = np.where(work == NONE, NONE, events.name[kernels] * len(found.works) + work)
    return DeviceWork(recorded, row, call, stray, like, told.notes)


@dataclass(frozen=True, eq=False)
class _Told:
    """Rows of work, one for each kernel; NONE where nothing tells."""

    known: Int64  # by the operator around its launch
    likely: Int64  # by its likes, or by an operator that no family knows
    shared: Int64  # the event that it shares its work with
    notes: tuple[str, ...]


def _told(seen: SeenKernels, found: Operators) -> _Told:
    operator = _operators(seen.view, found.of_event, seen.asked)
    known = np.where(operator == NONE, NONE, found.of_event[operator])
    narrow = no_room(seen.ran, found.works, known, operator)
    beyond = too_much(seen.ran, found.works, known, operator) & ~narrow
    known = np.where(narrow | beyond, NONE, known)
    likely = np.where(narrow | beyond, NONE, _by_likes(seen, known))
    guessing = _operators(seen.view, found.guess_of_event, seen.asked)
    guessing = np.where(seen.launches.has_own_family, NONE, guessing)
    guess = np.where(guessing == NONE, NONE, found.guess_of_event[guessing])
    wild = too_much(seen.ran, found.works, guess, guessing)
    beyond |= wild & (known == NONE) & (likely == NONE)
    guess, guessing = (np.where(wild, NONE, each) for each in (guess, guessing))
    likely = np.where(likely == NONE, guess, likely)
    alone = _fills_alone(seen, found, (known, likely))
    known, likely = (np.where(alone, NONE, each) for each in (known, likely))
    shared = np.where(known == NONE, np.where(likely == guess, guessing, NONE), operator)
    notes = _notes(seen.ran, narrow=narrow, beyond=beyond, by_graph=seen.launches.by_graph)
    return _Told(known, likely, shared, tuple(notes))


def _by_likes(seen: SeenKernels, known: Int64) -> Int64:
    events, kernels = seen.view.trace.events, seen.kernels
    columns = (events.name, events.form, events.lane)
    name, launch, lane = (column[kernels].astype(np.int64) for column in columns)
    return recognised(name, launch, lane, known)


def _operators(view: RankView, of_event: Int64, asked: Int64) -> Int64:
    """The innermost operator around each launch that has work in `of_event`; NONE without."""
    events = view.trace.events
    lane = np.where(asked == NONE, NONE, events.lane[asked]).astype(np.int32)
    at = np.where(asked == NONE, 0, events.start_ns[asked])
    operator = covering(view, of_event != NONE, lane, at)
    return np.where(asked == NONE, NONE, operator)


def _fills_alone(seen: SeenKernels, found: Operators, rows: tuple[Int64, Int64]) -> Bool:
    """Fills of memory that are no part of a product: libraries clear what they then add to."""
    products = [work.family in PRODUCTS for _, work in found.works]
    known, likely = rows
    row = np.where(known == NONE, likely, known)
    part = (row != NONE) & np.array([*products, False])[row]
    fills = seen.view.trace.events.category[seen.kernels] == Category.MEMSET
    alone: Bool = fills & ~part
    return alone


def _recorded(
    launches: Launches, works: Sequence[tuple[str, Work]], known: Int64, likely: Int64
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
    launches: Launches, kernel: int, works: Sequence[tuple[str, Work]], here: int, there: int
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
    if work.dtype is not DType.FLOAT32 or work.family not in PRODUCTS:
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


def _notes(ran: Ran, *, narrow: Bool, beyond: Bool, by_graph: Bool) -> Iterator[str]:
    if narrow.any():
        yield (
            f"{_counted(ran, narrow)} have no room in their grid for the elements that shapes "
            "tell; of these the kernel's name and grid are believed"
        )
    if beyond.any():
        yield (
            f"{_counted(ran, beyond)} did, by their shapes, more than {ran.limits.name} can in "
            "that time, or than their grid has blocks for: these shapes are not believed"
        )
    if by_graph.any():
        yield (
            f"{_counted(ran, by_graph)} were launched by a graph, which does not tell their "
            "operators: they are known by like kernels and by name (inferred)"
        )


def _counted(ran: Ran, chosen: Bool) -> str:
    share = ran.dur_ns[chosen].sum() / max(ran.dur_ns.sum(), 1)
    return f"{chosen.sum()} of {len(chosen)} kernels ({100 * share:.1f} % of their time)"
