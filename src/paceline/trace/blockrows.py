"""The ops of one rank by where they come from: threads, device work, latencies, step borders."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, DType, LaneKind, OpKind, Phase
from paceline.trace.ownops import OwnOps
from paceline.trace.phases import layers_at, phases_at
from paceline.trace.pieces import Pieces
from paceline.trace.shapes import Worked
from paceline.trace.trace import Category, Int32, Int64, Steps, UInt8
from paceline.trace.view import RankView

GAP_NAME: Final = "between ops"
LATENCY_NAME: Final = "latency"
OFFSET_NAME: Final = "starts later"
STEP_NAME: Final = "step"

_DISPATCH: Final = ("PythonSubclass",)
"""Operators that compute nothing: torch's way into the Python of a tensor's own class (DTensor)."""

_KINDS: Final = {
    Category.KERNEL: OpKind.COMPUTE,
    Category.MEMCPY: OpKind.COPY,
    Category.MEMSET: OpKind.COPY,
    Category.COMMUNICATION: OpKind.COLLECTIVE,
}


@dataclass(frozen=True, eq=False)
class BlockRows:
    """The columns of ops that one trace can fill; `step` is NONE for what lies in no step."""

    event: Int64  # row of `Events`; NONE without
    lane: Int32
    start_ns: Int64
    rank_in_lane: Int64  # orders ops that start at the same moment
    dur_ns: Int64
    size_bytes: Int64
    kind: UInt8
    phase: UInt8
    name: Int32
    layer: Int32
    step: Int32
    flops: Int64
    dtype: UInt8
    work: Int64  # row of the rank's recorded work; NONE unknown

    def __len__(self) -> int:
        return len(self.lane)


class Names:
    """The trace's names, and those that the graph adds."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._given, self._added = names, dict[str, int]()

    def add(self, text: str) -> int:
        return len(self._given) + self._added.setdefault(text, len(self._added))

    def all(self) -> tuple[str, ...]:
        return (*self._given, *self._added)


def piece_rows(
    view: RankView, pieces: Pieces, steps: Steps, names: Names, worked: Worked
) -> BlockRows:
    """Self time of the host threads. What an operator works on is shared by its pieces."""
    events, gap = view.trace.events, pieces.owner < 0
    owner = np.maximum(pieces.owner, 0)
    phase = phases_at(view, pieces.lane, pieces.start_ns)
    named = events.name[owner] if len(events) else owner
    kind = _piece_kinds(view, pieces, phase)
    share, work = _piece_shares(pieces, kind == OpKind.COMPUTE), worked.row[owner]
    work = np.where((share > 0), work, NONE)
    known = work != NONE
    return BlockRows(
        event=np.full(len(pieces), NONE, np.int64),
        lane=pieces.lane,
        start_ns=pieces.start_ns,
        rank_in_lane=np.arange(len(pieces), dtype=np.int64) * 2,
        dur_ns=pieces.dur_ns,
        size_bytes=np.where(known, np.rint(worked.size_bytes[owner] * share), 0).astype(np.int64),
        kind=kind,
        phase=phase,
        name=np.where(gap, names.add(GAP_NAME), named).astype(np.int32),
        layer=_named_layers(view, pieces.lane, pieces.start_ns, names),
        step=step_at(steps, pieces.start_ns),
        flops=np.where(known, np.rint(worked.flops[owner] * share), 0).astype(np.int64),
        dtype=np.where(known, worked.dtype[owner], DType.NONE).astype(np.uint8),
        work=work,
    )


def _named_layers(view: RankView, lane: Int32, at_ns: Int64, names: Names) -> Int32:
    """Of what host lanes do at these moments."""
    layer, layers = layers_at(view, lane, at_ns)
    index = np.array([names.add(text) for text in layers] or [NONE], np.int32)
    return np.where(layer == NONE, NONE, index[np.maximum(layer, 0)]).astype(np.int32)


def _piece_shares(pieces: Pieces, computes: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Each piece's part of its owner's time; none for pieces that do not compute."""
    owner = np.maximum(pieces.owner, 0)
    took = np.where(computes, np.maximum(pieces.dur_ns, 1), 0)
    whole = np.bincount(owner, took, int(owner.max(initial=0)) + 1)[owner]
    return np.divide(took, whole, out=np.zeros(len(owner)), where=whole > 0)


def own_rows(view: RankView, own: OwnOps, steps: Steps, names: Names, worked: Worked) -> BlockRows:
    """Device work and transfers; collectives get their duration when the ranks are joined."""
    events, row = view.trace.events, own.event
    kind = np.zeros(256, np.uint8)
    kind[list(_KINDS)] = list(_KINDS.values())
    kinds = kind[events.category[row]]
    moves = np.zeros(len(events), np.bool_)
    moves[view.trace.collectives.event] = True
    lane = _launches(view, own)
    phase = phases_at(view, lane, own.caused_ns)
    return BlockRows(
        event=row.astype(np.int64),
        lane=events.lane[row],
        start_ns=own.start_ns,
        rank_in_lane=np.arange(len(row), dtype=np.int64) * 2,
        dur_ns=own.end_ns - own.start_ns,
        size_bytes=np.where(
            events.size_bytes[row] > 0, events.size_bytes[row], worked.size_bytes[row]
        ),
        kind=np.where(moves[row], OpKind.COLLECTIVE, kinds).astype(np.uint8),
        phase=np.where(moves[row], Phase.COMMUNICATION, phase).astype(np.uint8),
        name=events.name[row],
        layer=_named_layers(view, lane, own.caused_ns, names),
        step=step_at(steps, own.caused_ns),
        flops=worked.flops[row],
        dtype=worked.dtype[row],
        work=worked.row[row],
    )


def latency_rows(view: RankView, own: OwnOps, whole: BlockRows, names: Names) -> BlockRows:
    """What passed between the last thing an op waited for and its start, kept on its lane;
    `whole` are the rows of the ops themselves."""
    late = own.gap_ns > 0
    count = int(late.sum())
    return BlockRows(
        event=np.full(count, NONE, np.int64),
        lane=whole.lane[late],
        start_ns=own.start_ns[late] - own.gap_ns[late],
        rank_in_lane=whole.rank_in_lane[late] - 1,
        dur_ns=own.gap_ns[late],
        size_bytes=np.zeros(count, np.int64),
        kind=np.full(count, OpKind.HOST, np.uint8),
        phase=whole.phase[late],
        name=np.full(count, names.add(LATENCY_NAME), np.int32),
        layer=np.full(count, NONE, np.int32),
        step=whole.step[late],
        **_without_work(count),
    )


def _without_work(count: int) -> dict[str, Any]:
    return {
        "flops": np.zeros(count, np.int64),
        "dtype": np.zeros(count, np.uint8),
        "work": np.full(count, NONE, np.int64),
    }


def border_rows(
    view: RankView, pieces: Pieces, steps: Steps, origin_ns: int, names: Names
) -> BlockRows:
    """A marker at each step's begin, and on each thread the time by which it begins later than
    the first rank's first step."""
    lanes = np.unique(pieces.lane)
    inside = step_at(steps, pieces.start_ns) != NONE
    begins = [_first_inside(pieces, inside, lane) for lane in lanes.tolist()]
    late = [(lane, at) for lane, at in zip(lanes.tolist(), begins) if at > origin_ns]
    marks = [(view.main_lane, at) for at in steps.start_ns.tolist() if view.main_lane != NONE]
    lane, at = np.array(late + marks, np.int64).reshape(-1, 2).T
    offset = np.arange(len(lane)) < len(late)
    number = np.where(offset, steps.number[:1], np.resize(steps.number, len(lane)))
    number[len(late) :] = steps.number[: len(marks)]
    count = len(lane)
    return BlockRows(
        event=np.full(count, NONE, np.int64),
        lane=lane.astype(np.int32),
        start_ns=np.where(offset, origin_ns, at),
        rank_in_lane=np.where(offset, -2, -1).astype(np.int64),
        dur_ns=np.where(offset, at - origin_ns, 0),
        size_bytes=np.zeros(count, np.int64),
        kind=np.where(offset, OpKind.WAIT, OpKind.MARKER).astype(np.uint8),
        phase=np.full(count, Phase.NONE, np.uint8),
        name=np.where(offset, names.add(OFFSET_NAME), names.add(STEP_NAME)).astype(np.int32),
        layer=np.full(count, NONE, np.int32),
        step=number.astype(np.int32),
        **_without_work(count),
    )


def step_at(steps: Steps, at_ns: Int64) -> Int32:
    """The step's number at each moment; NONE before the first border and after the last."""
    row = np.searchsorted(steps.start_ns, at_ns, "right") - 1
    inside = (row >= 0) & (at_ns < steps.end_ns[-1])
    return np.where(inside, steps.number[np.maximum(row, 0)], NONE).astype(np.int32)


def _first_inside(pieces: Pieces, inside: NDArray[np.bool_], lane: int) -> int:
    rows = np.flatnonzero(inside & (pieces.lane == lane))
    return int(pieces.start_ns[rows[0]]) if len(rows) else 0


def _piece_kinds(view: RankView, pieces: Pieces, phase: UInt8) -> UInt8:
    """Operators compute where there is no device to compute for them; the rest is the host's."""
    events = view.trace.events
    owner = np.maximum(pieces.owner, 0)
    category = events.category[owner]
    on_device = any(lane.kind is LaneKind.STREAM for lane in view.trace.lanes)
    computes = (category == Category.CPU_OP) & (pieces.owner >= 0) & (not on_device)
    computes &= (phase != Phase.COMMUNICATION) & ~view.names_with(*_DISPATCH)[owner]
    kind = np.where(computes, OpKind.COMPUTE, OpKind.HOST)
    kind = np.where(phase == Phase.DATA, OpKind.DATA, kind)
    return np.where(pieces.wait, OpKind.WAIT, kind).astype(np.uint8)


def _launches(view: RankView, own: OwnOps) -> Int32:
    """The thread that asked for each piece of device work; NONE for all else."""
    call = np.full(len(view.trace.events), NONE, np.int64)
    call[view.calls.work] = view.calls.call
    asked = call[own.event]
    return np.where(asked == NONE, NONE, view.trace.events.lane[asked]).astype(np.int32)
