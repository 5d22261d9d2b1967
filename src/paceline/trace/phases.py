"""What each op is for: phase and layer, from annotations, autograd's numbers and module names."""

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.engine import native
from paceline.graph import NONE, Phase
from paceline.record.sidecar import Backward, Data
from paceline.trace.trace import Bool, Category, Int32, Int64
from paceline.trace.view import RankView

_UPDATE: Final = ("Optimizer.step#", "Optimizer.zero_grad#", "## optimizer ##")
_DATA: Final = ("enumerate(DataLoader)",)
_BACKWARD: Final = ("## backward ##",)
_COMMUNICATION: Final = ("c10d::", "nccl:", "record_param_comms", "FSDP::all_gather (")
"""FSDP2's range holds the copy of its shards into the buffer that it gathers, and the call."""
_MODULE: Final = re.compile(r"nn\.Module: (.+)")


def phases_at(view: RankView, lane: Int32, at_ns: Int64) -> NDArray[np.uint8]:
    """Phase of what a host lane does at each moment."""
    events = view.trace.events
    phase = np.full(len(lane), Phase.FORWARD, np.uint8)
    marks: tuple[tuple[Phase, Bool], ...] = (
        (Phase.BACKWARD, events.backward | view.names_with(*_BACKWARD)),
        (Phase.UPDATE, view.names_with(*_UPDATE)),
        (Phase.DATA, view.names_with(*_DATA)),
        (Phase.COMMUNICATION, view.names_with(*_COMMUNICATION)),
    )
    for meaning, chosen in marks:
        phase[covering(view, chosen & view.is_host, lane, at_ns) != NONE] = meaning
    for meaning, stretches in _recorded_phases(view):
        phase[_within(view, stretches, lane, at_ns) & (phase == Phase.FORWARD)] = meaning
    return phase


def recorded_moments(view: RankView) -> tuple[Int32, Int64]:
    """Lanes and times at which the purpose of a thread's work changes, as the recorder saw it."""
    parts = [stretches for _, stretches in _recorded_phases(view)]
    owner, begin, end = np.concatenate([np.zeros((3, 0), np.int64), *parts], axis=1)
    known = owner != NONE
    lane = np.concatenate([owner[known], owner[known]]).astype(np.int32)
    return lane, np.concatenate([begin[known], end[known]])


def _recorded_phases(view: RankView) -> Iterator[tuple[Phase, Int64]]:
    """Stretches (columns lane, begin, end) whose purpose the recorder knows."""
    if view.sidecar is None:
        return
    main = view.main_lane
    loads = [(view.thread_lane(d.thread), d.begin_ns, d.end_ns) for d in view.sidecar.of(Data)]
    passes = [(view.thread_lane(b.thread), b.begin_ns, b.end_ns) for b in view.sidecar.of(Backward)]
    updates = [
        (main, s.update_begin_ns, s.end_ns) for s in view.recorded_steps if s.update_begin_ns
    ]
    for meaning, rows in ((Phase.DATA, loads), (Phase.BACKWARD, passes), (Phase.UPDATE, updates)):
        yield meaning, np.array(rows, np.int64).reshape(-1, 3).T


def _within(view: RankView, stretches: Int64, lane: Int32, at_ns: Int64) -> Bool:
    """Which moments lie in one of the stretches, which do not overlap on a lane."""
    owner, begin, end = stretches
    order = np.argsort(view.key(owner, begin), kind="stable")
    begins, ends = view.key(owner, begin)[order], view.key(owner, end)[order]
    key = view.key(lane, at_ns)
    at = np.searchsorted(begins, key, "right") - 1
    if not len(begins):
        return np.zeros(len(key), np.bool_)
    inside: Bool = (at >= 0) & (key < ends[np.maximum(at, 0)])
    return inside


def layers_at(view: RankView, lane: Int32, at_ns: Int64) -> tuple[Int32, list[str]]:
    """Layer of what a host lane does at each moment, as an index into the layers' names.

    Forward ops lie inside a module's frame; backward ops share autograd's number with the forward
    op they belong to.
    """
    events, names = view.trace.events, view.trace.names
    if view.trace.layer_of is not None:
        return _recorded_layers(view, view.trace.layer_of, lane, at_ns), list(view.trace.layers)
    layer_of_name, layers = _module_names(names)
    frames = (layer_of_name[events.name] != NONE) if len(events) else np.zeros(0, np.bool_)
    if not frames.any():
        return np.full(len(lane), NONE, np.int32), []
    frame = covering(view, frames, _python_lane(view, lane, frames), at_ns)
    layer = np.where(frame != NONE, layer_of_name[events.name[frame]], NONE).astype(np.int32)
    return _through_autograd(view, lane, at_ns, layer), layers


def _recorded_layers(view: RankView, layer_of: Int32, lane: Int32, at_ns: Int64) -> Int32:
    """Of the innermost op around each moment whose layer is known."""
    around = covering(view, layer_of != NONE, lane, at_ns)
    return np.where(around != NONE, layer_of[around], NONE).astype(np.int32)


def _module_names(names: tuple[str, ...]) -> tuple[Int32, list[str]]:
    """For each name the index of the module it is a frame of; and the modules."""
    index = np.full(max(len(names), 1), NONE, np.int32)
    layers: dict[str, int] = {}
    for number, name in enumerate(names):
        if match := _MODULE.search(name):
            index[number] = layers.setdefault(match[1], len(layers))
    return index, list(layers)


def _python_lane(view: RankView, lane: Int32, frames: Bool) -> Int32:
    """Python frames of some profiler versions sit on a lane of their own: then look there."""
    lanes = np.unique(view.trace.events.lane[frames])
    if len(lanes) == 1 and lanes[0] not in view.host_lanes:
        return np.where(lane == view.main_lane, lanes[0], lane).astype(np.int32)
    return lane


def _through_autograd(view: RankView, lane: Int32, at_ns: Int64, layer: Int32) -> Int32:
    """Give backward moments the layer of the forward op with the same number."""
    events = view.trace.events
    numbered = (events.sequence >= 0) & (events.category == Category.CPU_OP)
    around = covering(view, numbered, lane, at_ns)
    number = np.where(around != NONE, events.sequence[around], NONE)
    backward = (around != NONE) & events.backward[around]
    known = (number != NONE) & ~backward & (layer != NONE)
    order = np.argsort(number[known], kind="stable")
    keys, values = number[known][order], layer[known][order]
    if not len(keys):
        return layer
    at = np.minimum(np.searchsorted(keys, number), len(keys) - 1)
    found = backward & (layer == NONE) & (keys[at] == number)
    return np.where(found, values[at], layer).astype(np.int32)


def covering(view: RankView, chosen: Bool, lane: Int32, at_ns: Int64) -> Int64:
    """For each moment the innermost chosen event that covers it; NONE without any."""
    events, rows = view.trace.events, np.flatnonzero(chosen)
    found = np.full(len(lane), NONE, np.int64)
    if not len(rows):
        return found
    starts = view.key(events.lane[rows], events.start_ns[rows])
    ends = view.key(events.lane[rows], events.end_ns[rows])
    key = view.key(lane, at_ns)
    at = np.searchsorted(starts, key, "right") - 1
    outer = outer_ranges(ends)
    pending = at >= 0
    while pending.any():
        inside = pending & (ends[at] > key)
        found[inside] = rows[at[inside]]
        at = np.where(pending & ~inside, outer[np.maximum(at, 0)], at)
        pending = pending & ~inside & (at >= 0)
    return found


def outer_ranges(ends: Int64) -> Int64:
    """For ranges in order of start: the nearest earlier one that ends later; NONE for none."""
    core = native()
    run = core.outer_ranges if core is not None else plain_outer
    found: Int64 = run(ends)
    return found


def plain_outer(ends: Int64) -> Int64:
    """The specification of the native `outer_ranges`."""
    outer = np.full(len(ends), NONE, np.int64)
    open_rows: list[int] = []
    values = ends.tolist()
    for row, end in enumerate(values):
        while open_rows and values[open_rows[-1]] < end:
            open_rows.pop()
        if open_rows:
            outer[row] = open_rows[-1]
        open_rows.append(row)
    return outer
