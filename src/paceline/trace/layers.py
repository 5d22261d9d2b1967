"""Which module each op belongs to, and the shapes that it had, from a recording's detail step.

The detail step runs the ops of the recorded ones in the same order on each thread (a device's
backward pass has one of its own), and there the recorder shows when each module's forward ran. An
op of a recorded step belongs to the module of its partner there (`alike`), or to that of the ops
around it; a backward op to that of the forward op with the same autograd number.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from paceline.graph import NONE
from paceline.record.sidecar import Layer, Mode, Sidecar, Step
from paceline.trace.alike import apart, matched
from paceline.trace.trace import Category, Int32, Int64, Trace
from paceline.trace.view import RankView


def with_layers(trace: Trace, sidecar: Sidecar, detail: Trace) -> Trace:
    """The trace with a module on every op that has one; a note where steps differ."""
    seen = RankView(detail, sidecar)
    steps = {step.mode: step for step in sidecar.of(Step)}
    if Mode.DETAIL not in steps or seen.main_lane == NONE:
        return trace
    layers, names = _layers_of(seen, sidecar.of(Layer))
    view = RankView(trace, sidecar)
    column = np.full(len(trace.events), NONE, np.int32)
    form = trace.events.form.copy()
    differ = []
    threads = [(seen.main_lane, view.main_lane), (seen.backward_lane, view.backward_lane)]
    described = [(_ops_of(seen, steps[Mode.DETAIL], there), here) for there, here in threads]
    for step in view.recorded_steps:
        parts = []
        for known, lane in described:
            rows = _ops_of(view, step, lane)
            place = matched(_names(seen, known), _names(view, rows))
            parts.append(apart(place, len(rows)))
            if place is not None:
                partner = _turned(place, len(rows))
                column[rows] = _between(_of_partner(layers[known], partner), partner)
                asked = _of_partner(detail.events.form[known], partner)
                form[rows] = np.where(asked == NONE, form[rows], asked + len(trace.forms))
        differ.append(parts[0])
    trace = trace.noting(*_notes(differ, steps[Mode.DETAIL]))
    if all(part == 1.0 for part in differ):
        return trace
    shaped = replace(
        trace,
        events=replace(trace.events, form=form),
        forms=(*trace.forms, *detail.forms),
    )
    return replace(shaped, layer_of=_backward_too(trace, column), layers=names)


def _notes(differ: Sequence[float], detail: Step) -> list[str]:
    """`differ` is, of each recorded step, the part of its ops that the detail step does not run."""
    if all(part == 1.0 for part in differ):
        return ["no recorded step runs the ops of the detail step: layers and memory are unknown"]
    others = [part for part in differ if part]
    if not others:
        return []
    return [
        f"shapes and memory are those of step {detail.index}: {len(others)} of {len(differ)} "
        f"recorded steps differ from it, by up to {100 * max(others):.2g} % of their ops"
    ]


def _turned(place: Int64, count: int) -> Int64:
    """Of each of `count` ops of the other step the one that has it for a partner, or NONE."""
    found = np.full(count, NONE, np.int64)
    known = np.flatnonzero(place != NONE)
    found[place[known]] = known
    return found


def _of_partner(values: Int32, partner: Int64) -> Int32:
    """NONE where there is no partner."""
    return np.append(values, np.int32(NONE))[partner]


def _between(layers: Int32, partner: Int64) -> Int32:
    """Ops without a partner are of the module that those before and behind them are both of."""
    known = np.flatnonzero(partner != NONE)
    lone = np.flatnonzero(partner == NONE)
    behind = np.searchsorted(known, lone)
    inside = (behind > 0) & (behind < len(known))
    lone, behind = lone[inside], behind[inside]
    before, after = layers[known[behind - 1]], layers[known[behind]]
    found = layers.copy()
    found[lone] = np.where(before == after, before, NONE)
    return found


def _ops_of(view: RankView, step: Step, lane: int) -> Int64:
    """Operators of a thread within a step, in order."""
    events = view.trace.events
    inside = (events.start_ns >= step.begin_ns) & (events.start_ns < step.end_ns)
    return np.flatnonzero(inside & (events.lane == lane) & (events.category == Category.CPU_OP))


def _names(view: RankView, rows: Int64) -> list[str]:
    return [view.trace.names[i] for i in view.trace.events.name[rows].tolist()]


def _layers_of(view: RankView, recorded: Sequence[Layer]) -> tuple[Int32, tuple[str, ...]]:
    """For each event of the training loop's thread the innermost module whose forward was running,
    and the modules' names."""
    mine = np.flatnonzero(view.trace.events.lane == view.main_lane)
    starts = view.trace.events.start_ns[mine].tolist()
    index: dict[str, int] = {}
    found = np.full(len(view.trace.events), NONE, np.int32)
    inner_last = sorted(
        (la for la in recorded if la.module), key=lambda la: la.begin_ns - la.end_ns
    )
    for layer in inner_last:
        first, last = np.searchsorted(starts, [layer.begin_ns, layer.end_ns])
        found[mine[first:last]] = index.setdefault(layer.module, len(index))
    return found, tuple(index)


def _backward_too(trace: Trace, column: Int32) -> Int32:
    """Backward ops take the module of the forward op that has their number."""
    events = trace.events
    forward = (column != NONE) & (events.sequence != NONE) & ~events.backward
    number, layer = events.sequence[forward], column[forward]
    order = np.argsort(number, kind="stable")
    number, layer = number[order], layer[order]
    if not len(number):
        return column
    at = np.minimum(np.searchsorted(number, events.sequence), len(number) - 1)
    known = events.backward & (events.sequence != NONE) & (number[at] == events.sequence)
    return np.where(known, layer[at], column).astype(np.int32)
