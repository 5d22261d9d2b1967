"""Which module each op belongs to, and the shapes that it had, from a recording's detail step.

The detail step runs the same ops in the same order as the recorded ones, and there the recorder
shows when each module's forward ran. Op i of a recorded step belongs to the module of op i there;
a backward op to that of the forward op with the same autograd number.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from paceline.graph import NONE
from paceline.record.sidecar import Layer, Mode, Sidecar, Step
from paceline.trace.trace import Category, Int32, Int64, Trace
from paceline.trace.view import RankView


def with_layers(trace: Trace, sidecar: Sidecar, detail: Trace) -> Trace:
    """The trace with a module on every op that has one; unchanged where the steps differ."""
    seen = RankView(detail, sidecar)
    steps = {step.mode: step for step in sidecar.of(Step)}
    if Mode.DETAIL not in steps or seen.main_lane == NONE:
        return trace
    described = _ops_of(seen, steps[Mode.DETAIL])
    layers, names = _layers_of(seen, described, sidecar.of(Layer))
    view = RankView(trace, sidecar)
    column = np.full(len(trace.events), NONE, np.int32)
    form, told = trace.events.form.copy(), detail.events.form[described]
    matched = 0
    for step in view.recorded_steps:
        rows = _ops_of(view, step)
        if _names(view, rows) == _names(seen, described):
            column[rows] = layers
            form[rows] = np.where(told == NONE, form[rows], told + len(trace.forms))
            matched += 1
    if not matched:
        return trace.noting("no recorded step runs the ops of the detail step: layers are unknown")
    shaped = replace(
        trace,
        events=replace(trace.events, form=form),
        forms=(*trace.forms, *detail.forms),
    )
    return replace(shaped, layer_of=_backward_too(trace, column), layers=names)


def _ops_of(view: RankView, step: Step) -> Int64:
    """Operators of the training loop's thread within a step, in order."""
    events = view.trace.events
    inside = (events.start_ns >= step.begin_ns) & (events.start_ns < step.end_ns)
    on_main = (events.lane == view.main_lane) & (events.category == Category.CPU_OP)
    return np.flatnonzero(inside & on_main)


def _names(view: RankView, rows: Int64) -> list[str]:
    return [view.trace.names[i] for i in view.trace.events.name[rows].tolist()]


def _layers_of(
    view: RankView, rows: Int64, recorded: Sequence[Layer]
) -> tuple[Int32, tuple[str, ...]]:
    """For each op the innermost module whose forward was running, and the modules' names."""
    starts = view.trace.events.start_ns[rows].tolist()
    index: dict[str, int] = {}
    found = np.full(len(rows), NONE, np.int32)
    inner_last = sorted(
        (la for la in recorded if la.module), key=lambda la: la.begin_ns - la.end_ns
    )
    for layer in inner_last:
        first, last = np.searchsorted(starts, [layer.begin_ns, layer.end_ns])
        found[first:last] = index.setdefault(layer.module, len(index))
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
