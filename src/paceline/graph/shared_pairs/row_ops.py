"""What a thread or a stream does for the rows of pairs, and the calls that carry them."""

from dataclasses import dataclass

import numpy as np

from paceline.graph.graph import Int64
from paceline.graph.kinds import NONE, UNPRICED, Collective, DType, OpKind, Phase
from paceline.graph.shared_pairs.calls import PairCalls
from paceline.graph.shared_pairs.new_ops import NAMES, New, Turn, plain
from paceline.graph.splice import Sort


def taken_in(calls: PairCalls, degree: int) -> Int64:
    """Bytes that are read and written to take in what came: copied, or added to the own."""
    others = calls.size_bytes // degree * (degree - 1)
    return np.where(calls.sums, 3 * others, 2 * others)


@dataclass(frozen=True)
class Role:
    """What a thread or a stream does for each of the calls."""

    kind: OpKind
    turn: Turn
    dur_ns: int = 0
    touches: Int64 | None = None  # bytes


def beside(new: New, calls: PairCalls, chosen: Int64, role: Role) -> Sort:
    """Each stands before or behind an op: what a host does on its thread, the rest on its lane. Up
    to the call it is for the sake of communication; behind it the pass waits and goes on."""
    graph, anchor = new.graph, calls.anchor[chosen]
    like = new.launcher[anchor] if role.kind is OpKind.HOST else anchor
    phase = graph.ops.phase[anchor] if role.turn > Turn.CALL else Phase.COMMUNICATION
    columns = {
        **plain(new, like, like - calls.before[chosen], role.turn),
        "kind": role.kind,
        "dur_ns": role.dur_ns,
        "size_bytes": 0 if role.touches is None else role.touches[chosen],
        "phase": np.broadcast_to(np.asarray(phase, np.int64), len(chosen)),
    }
    return Sort(_turn(calls, chosen, role.turn), columns)


def row_calls(new: New, calls: PairCalls, lane: Int64, group: Int64, above: int) -> Sort:
    graph = new.graph
    width = int(calls.place.max(initial=0)) + 1
    number = new.instances(calls.step, group * width + calls.place)
    columns = {
        **plain(new, calls.anchor, calls.anchor - calls.before, Turn.CALL),
        "kind": OpKind.COLLECTIVE,
        "dur_ns": UNPRICED,
        "lane": lane,
        "size_bytes": calls.size_bytes,
        "collective": Collective.ALL_TO_ALL,
        "dtype": DType.UINT8,
        "group": group,
        "instance": int(graph.ops.instance.max(initial=NONE)) + 1 + above + number,
        "phase": np.full(len(lane), Phase.COMMUNICATION, np.int64),
    }
    return Sort(_turn(calls, np.arange(len(lane)), Turn.CALL), columns)


def _turn(calls: PairCalls, chosen: Int64, part: Turn) -> Int64:
    """Behind reductions of parts that stand at the same op."""
    many = len(NAMES)
    width = int(calls.place.max(initial=0)) + 1
    turn: Int64 = (calls.step[chosen] * width + calls.place[chosen]) * many + part
    return turn
