"""A tree from model to module to operator to kernel, with times at every level, of one rank.

Ranges of the training thread lie in one another; a kernel belongs to the innermost operator whose
call launched it. Siblings of one kind and name are one node. Modules come from the profiler's
Python stack (`with_modules`) or, in recordings, from the detail step.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from paceline.graph import NONE
from paceline.trace.trace import Category, Trace
from paceline.trace.view import DEVICE_WORK, RankView, call_column

_MODULE: Final = "nn.Module: "


@dataclass
class _Branch:
    kind: str
    name: str
    count: int = 0
    host_ns: int = 0
    device_ns: int = 0
    inside: dict[tuple[str, str], "_Branch"] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """One module, operator or kernel. Times hold everything below it."""

    kind: str  # model, module, range, operator, kernel
    name: str
    count: int
    host_ns: int
    device_ns: int
    inside: tuple["Node", ...]  # what takes most first


def tree_of(trace: Trace, most: int = 12) -> Node:
    """The training thread's tree, with at most so many children a node; the rest is one node."""
    view, events = RankView(trace), trace.events
    if view.main_lane == NONE:
        return Node("model", str(trace), 0, 0, 0, ())
    of_event: dict[int, list[_Branch]] = {}
    root = _Branch("model", f"rank {trace.rank}" if trace.rank != NONE else trace.source)
    _grow(view, root, of_event)
    call = call_column(view)
    for row in np.flatnonzero(np.isin(events.category, DEVICE_WORK)).tolist():
        path = of_event.get(int(call[row]), [root])
        lasts = int(events.end_ns[row] - events.start_ns[row])
        leaf = _child(path[-1], "kernel", trace.names[events.name[row]])
        leaf.count += 1
        for branch in (*path, leaf):
            branch.device_ns += lasts
    return _node(root, most)


def _grow(view: RankView, root: _Branch, of_event: dict[int, list[_Branch]]) -> None:
    """Walk the thread from left to right with the stack of open ranges."""
    trace, events = view.trace, view.trace.events
    open_until: list[tuple[int, _Branch]] = []
    first, last = np.searchsorted(events.lane, [view.main_lane, view.main_lane + 1])
    for row in range(int(first), int(last)):
        start, end = int(events.start_ns[row]), int(events.end_ns[row])
        while open_until and open_until[-1][0] <= start:
            open_until.pop()
        category = int(events.category[row])
        path = [root, *(branch for _, branch in open_until)]
        if category == Category.RUNTIME:
            of_event[row] = path
            continue
        kind, name = _said(view, row, category)
        if not kind:
            continue
        if not open_until:
            root.host_ns += end - start
        branch = path[-1]
        if not any(each.kind in ("operator", "module") for each in path):
            branch = _module_of(view, row, branch)
        branch = _child(branch, kind, name)
        branch.count += 1
        branch.host_ns += end - start
        open_until.append((end, branch))
    root.count = max(1, len(trace.steps))


def _module_of(view: RankView, row: int, parent: _Branch) -> _Branch:
    """A recording's operators lie in the module that the detail step names."""
    layers = view.trace.layer_of
    if layers is None or layers[row] == NONE:
        return parent
    module = _child(parent, "module", view.trace.layers[layers[row]])
    module.count += 1
    module.host_ns += int(view.trace.events.end_ns[row] - view.trace.events.start_ns[row])
    return module


def _said(view: RankView, row: int, category: int) -> tuple[str, str]:
    name = view.trace.names[view.trace.events.name[row]]
    if category == Category.PYTHON:
        return ("module", name[len(_MODULE) :]) if name.startswith(_MODULE) else ("", "")
    return {Category.CPU_OP: "operator", Category.ANNOTATION: "range"}.get(
        Category(category), ""
    ), name


def _child(branch: _Branch, kind: str, name: str) -> _Branch:
    return branch.inside.setdefault((kind, name), _Branch(kind, name))


def _node(branch: _Branch, most: int) -> Node:
    children = sorted(branch.inside.values(), key=lambda b: -(b.device_ns or b.host_ns))
    shown = [_node(child, most) for child in children[:most]]
    rest = children[most:]
    if rest:
        count, host = sum(b.count for b in rest), sum(b.host_ns for b in rest)
        device = sum(b.device_ns for b in rest)
        shown.append(Node("rest", f"{len(rest)} more", count, host, device, ()))
    return Node(
        branch.kind, branch.name, branch.count, branch.host_ns, branch.device_ns, tuple(shown)
    )
