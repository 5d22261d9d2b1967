"""The work of each operator on a host thread, from its recorded inputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.graph import NONE, DType
from paceline.graph.work import Elements, Family, Work, element_bytes
from paceline.trace.phases import outer_ranges
from paceline.trace.shapes import triton
from paceline.trace.shapes.families import RULES
from paceline.trace.shapes.inputs import Inputs, ShapeError, inputs_of
from paceline.trace.trace import Bool, Category, Int64
from paceline.trace.view import RankView


@dataclass(frozen=True, eq=False)
class Operators:
    """Distinct work, and for each event of the trace its row in it."""

    works: Sequence[tuple[str, Work]]  # with the operator's name
    of_event: Int64  # NONE for events whose work is not known
    shaped: int  # operators that told shapes
    guess_of_event: Int64  # the same for operators that no family knows: what they touch at least


def operators_of(view: RankView) -> Operators:
    """Each (name, form) is read once, however often it was called."""
    events, trace = view.trace.events, view.trace
    told = np.flatnonzero((events.category == Category.CPU_OP) & (events.form != NONE))
    pairs = events.name[told].astype(np.int64) << 32 | events.form[told]
    distinct, which = np.unique(pairs, return_inverse=True)
    works: list[tuple[str, Work]] = []
    rows = np.full((2, len(distinct) + 1), NONE, np.int64)  # by rule, and guessed
    read: dict[int, Inputs | None] = {}
    for at, pair in enumerate(distinct.tolist()):
        name, form = trace.names[pair >> 32], pair & 0xFFFFFFFF
        if form not in read:
            read[form] = inputs_of(trace.forms[form])
        guessed = name not in RULES and not triton.is_generated(name)
        work = _touched(read[form]) if guessed else work_of(name, read[form])
        if work is not None:
            rows[int(guessed), at] = len(works)
            works.append((name, work))
    of_event = np.full((2, len(events)), NONE, np.int64)
    of_event[:, told] = rows[:, which.reshape(-1)]
    return Operators(works, of_event[0], len(told), of_event[1])


def _touched(inputs: Inputs | None) -> Work | None:
    """Of an operator that no family knows: its tensors are read, and one like the largest made."""
    tensors = inputs.tensors() if inputs is not None else []
    if not tensors:
        return None
    largest = max(tensors, key=lambda tensor: tensor.count)
    dims = Elements(largest.count, len(tensors))
    read = sum(tensor.stored_bytes for tensor in tensors)
    return Work(Family.OTHER, largest.dtype, dims, largest.count, read, largest.stored_bytes)


def work_of(name: str, inputs: Inputs | None) -> Work | None:
    """None where no family knows the operator, and where the inputs are not told or not its own."""
    if inputs is None:
        return None
    if triton.is_generated(name):
        return triton.work_of(name, inputs)
    try:
        return RULES[name](inputs)
    except (KeyError, ShapeError, IndexError, ValueError):
        return None


def typed(work: Work, dtype: DType) -> Work:
    """The work of lists of tensors of untold type, once another source tells it."""
    if work.dtype is not DType.NONE or not work.is_known:
        return work
    size = element_bytes(dtype)
    return replace(
        work,
        dtype=dtype,
        read_bytes=round(work.read_bytes * size),
        written_bytes=round(work.written_bytes * size),
    )


def handing_on(view: RankView, found: Operators) -> Bool:
    """Operators that leave their work to another of the same family inside them."""
    events = view.trace.events
    rows = np.flatnonzero(found.of_event != NONE)
    on = np.zeros(len(events), np.bool_)
    if not len(rows):
        return on
    family = np.array([work.family for _, work in found.works] or [Family.OTHER], np.int64)
    mine = family[found.of_event[rows]]
    outer = outer_ranges(view.key(events.lane[rows], events.end_ns[rows]))
    inside = outer != NONE
    starts = view.key(events.lane[rows], events.start_ns[rows])
    inside[inside] &= starts[outer[inside]] <= starts[inside]
    same = inside & (mine == mine[np.maximum(outer, 0)])
    on[rows[outer[same]]] = True
    return on
