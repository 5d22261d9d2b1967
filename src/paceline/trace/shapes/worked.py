"""Each event's work, and the part of it that is the event's own: `worked_of`."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, DType, LaneKind
from paceline.graph.work import Recorded
from paceline.trace.shapes.kernels import DeviceWork, kernels_of
from paceline.trace.shapes.operators import Operators, handing_on, operators_of, typed
from paceline.trace.trace import Int64, UInt8
from paceline.trace.view import RankView

Float64 = NDArray[np.float64]

_HOW = "record with shapes (torch.profiler.profile(record_shapes=True, ...))"


@dataclass(frozen=True, eq=False)
class Worked:
    """What is known of each event's work; one row an event."""

    recorded: tuple[Recorded, ...]
    row: Int64  # of `recorded`; NONE where nothing is known
    flops: Int64  # the event's share of its call's
    size_bytes: Int64
    dtype: UInt8
    notes: tuple[str, ...] = ()


def worked_of(view: RankView) -> Worked:
    found = operators_of(view)
    if any(lane.kind is LaneKind.STREAM for lane in view.trace.lanes):
        device = kernels_of(view, found)
        notes = device.notes if found.shaped else (*device.notes, _unshaped(view))
        events = view.trace.events
        dur = np.maximum(events.end_ns - events.start_ns, 1)
        part = _with_strays(_parts(device.call, dur), device)
        return _shared(device.recorded, device.row, part, notes)
    return _of_host(view, found)


def _unshaped(view: RankView) -> str:
    return (
        "the trace tells no shapes, so the arithmetic of its kernels is known by their names "
        f"and grids alone: {_HOW}"
    )


def _of_host(view: RankView, found: Operators) -> Worked:
    """Operators of a processor work themselves, but for those that leave it to others."""
    count = len(view.trace.events)
    row = np.where(handing_on(view, found), NONE, found.of_event)
    recorded = tuple(Recorded(n, typed(work, DType.FLOAT32)) for n, work in found.works)
    return _shared(recorded, row, np.ones(count), ())


def _parts(call: Int64, dur_ns: Int64) -> Float64:
    """Events of one call share its work by how long each took."""
    _, which = np.unique(call, return_inverse=True)
    part: Float64 = dur_ns / np.bincount(which, dur_ns)[which]
    return part


def _with_strays(part: Float64, device: DeviceWork) -> Float64:
    """Kernels that are known by their likes have the mean part of those."""
    told = ~device.stray & (device.like != NONE)
    if not device.stray.any() or not told.any():
        return part
    _, which = np.unique(device.like, return_inverse=True)
    count = np.bincount(which[told], minlength=int(which.max()) + 1)
    mean = np.bincount(which[told], part[told], len(count)) / np.maximum(count, 1)
    return np.where(device.stray & (count[which] > 0), mean[which], part)


def _shared(
    recorded: tuple[Recorded, ...], row: Int64, part: Float64, notes: tuple[str, ...]
) -> Worked:
    """`part`: of its call's work, one for each event."""
    count = len(row)
    none = np.zeros(count, np.int64)
    made = Worked(recorded, row, none, none, none.astype(np.uint8), notes)
    known = row != NONE
    if not known.any():
        return made
    works = [each.work for each in recorded]

    def column(values: list[int]) -> Int64:
        filled = none.copy()
        filled[known] = np.rint(np.array(values, np.float64)[row[known]] * part[known])
        return filled

    dtype = made.dtype.copy()
    dtype[known] = np.array([work.dtype for work in works], np.uint8)[row[known]]
    return replace(
        made,
        flops=column([work.flops for work in works]),
        size_bytes=column([work.size_bytes for work in works]),
        dtype=dtype,
    )
