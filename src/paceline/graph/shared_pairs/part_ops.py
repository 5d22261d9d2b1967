"""Reductions of parts' gradients: their hand-over, their calls, and the update's wait for them."""

import numpy as np

from paceline.graph.graph import Int64
from paceline.graph.kinds import NONE, UNPRICED, Collective, DType, OpKind, Phase
from paceline.graph.shared_pairs.calls import PartCalls
from paceline.graph.shared_pairs.new_ops import New, Turn, plain
from paceline.graph.splice import Sort


def handing_over(new: New, parts: PartCalls) -> Sort:
    like = new.launcher[parts.ready]
    columns = {
        **plain(new, like, like, Turn.HAND_PART),
        "kind": OpKind.HOST,
        "dur_ns": new.talk.handed_ns,
        "phase": np.full(len(like), Phase.COMMUNICATION, np.int64),
    }
    return Sort(_first(parts, 0), columns)


def reducing(new: New, parts: PartCalls, lane: Int64, group: Int64) -> Sort:
    width = int(parts.place.max(initial=0)) + 1
    number = new.instances(parts.step, group * width + parts.place)
    columns = {
        **plain(new, parts.ready, new.launcher[parts.ready], Turn.REDUCE),
        "kind": OpKind.COLLECTIVE,
        "dur_ns": UNPRICED,
        "lane": lane,
        "size_bytes": parts.size_bytes,
        "collective": Collective.ALL_REDUCE,
        "dtype": DType.FLOAT32,
        "group": group,
        "instance": int(new.graph.ops.instance.max(initial=NONE)) + 1 + number,
        "phase": np.full(len(lane), Phase.COMMUNICATION, np.int64),
    }
    return Sort(_first(parts, 1), columns)


def _first(parts: PartCalls, part: int) -> Int64:
    """Before what else stands at the same op."""
    return 2 * np.arange(len(parts.step)) + part - 2 * len(parts.step)


def updates_behind(new: New, parts: PartCalls) -> Int64:
    """By part: the first op of the update behind it on its thread, or NONE."""
    ops, thread = new.graph.ops, new.launcher[parts.ready]
    updates = np.flatnonzero(ops.phase == Phase.UPDATE)
    keys = ops.lane[updates].astype(np.int64) * len(new.graph) + updates
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], ops.lane[thread].astype(np.int64) * len(new.graph) + thread)
    found = np.full(len(thread), NONE, np.int64)
    there = np.flatnonzero(at < len(keys))
    following = updates[order][at[there]]
    alike = ops.lane[following] == ops.lane[thread[there]]
    alike &= ops.step[following] == ops.step[thread[there]]
    found[there[alike]] = following[alike]
    return found


def waiting(new: New, update: Int64, waits: Int64) -> Sort:
    like = update[waits]
    columns = {
        **plain(new, like, like - 1, Turn.WAIT_PART),
        "kind": OpKind.WAIT,
        "phase": np.full(len(like), Phase.BACKWARD, np.int64),
    }
    return Sort(waits, columns)
