"""From a graph and changes laid over it to a new graph: the `freeze` of `paceline.graph.edits`."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import GraphError
from paceline.graph.border import COLUMN_TYPES, UNSCALED
from paceline.graph.graph import (
    Bool,
    Dependencies,
    Drains,
    Graph,
    Int64,
    MemoryEvents,
    OpColumns,
    Spread,
)
from paceline.graph.kinds import NONE, UNPRICED, DepKind

DEFAULTS = dict.fromkeys(COLUMN_TYPES, 0) | {
    **dict.fromkeys(("group", "instance", "layer", "tensor", "work"), NONE),
    "scale_ppb": UNSCALED,
}
"""What an inserted op holds in columns that were not given."""


@dataclass
class Inserted:
    """An op that an overlay adds, to stand behind `anchor` in id order."""

    name: str
    anchor: int
    row: dict[str, int]


@dataclass
class Changes:
    """What an overlay holds. Ids are those of the underlying graph, inserted ops count on."""

    columns: dict[str, Int64] = field(default_factory=dict)
    inserted: list[Inserted] = field(default_factory=list)
    removed: set[int] = field(default_factory=set)
    linked: list[tuple[int, int, DepKind]] = field(default_factory=list)  # (src, op, kind)
    unlinked: set[tuple[int, int]] = field(default_factory=set)  # (src, op)


def freeze(graph: Graph, changes: Changes) -> Graph:
    """The changed graph; what no change touched is shared with the old one."""
    columns: dict[str, Any] = {name: column.copy() for name, column in changes.columns.items()}
    changed = replace(graph, ops=replace(graph.ops, **columns)) if columns else graph
    if "dur_ns" in columns and graph.spread is not None:
        changed = replace(changed, spread=_stretched(graph, graph.spread, columns["dur_ns"]))
    if changes.inserted or changes.removed:
        return _renumbered(changed, changes)
    if changes.linked or changes.unlinked:
        return replace(changed, deps=_csr(len(graph), _links(changed, changes)))
    return changed


def new_ids(graph: Graph, changes: Changes) -> Int64:
    """For each id of the overlay its id in the frozen graph, or NONE where removed."""
    order = _order(graph, changes)
    ids = np.full(len(graph) + len(changes.inserted), NONE, np.int64)
    ids[order] = np.arange(len(order))
    return ids


def _order(graph: Graph, changes: Changes) -> Int64:
    """Overlay ids in the order in which they stand in the frozen graph."""
    anchors = np.array([i.anchor for i in changes.inserted], np.int64)
    keys = np.concatenate([np.arange(len(graph)), anchors])
    order = np.argsort(keys, kind="stable")
    if not changes.removed:
        return order
    return order[~np.isin(order, np.fromiter(changes.removed, np.int64))]


def _renumbered(graph: Graph, changes: Changes) -> Graph:
    order, ids = _order(graph, changes), new_ids(graph, changes)
    names = dict(zip(graph.names, range(len(graph.names))))
    new_names = [names.setdefault(op.name, len(names)) for op in changes.inserted]
    links = _links(graph, changes)
    links = _with_ids(_bridged(links, changes.removed), ids)
    return replace(
        graph,
        ops=_ops(graph, changes, order, new_names),
        deps=_csr(len(order), links),
        names=tuple(names),
        drains=_drains(graph.drains, ids),
        memory=_memory(graph.memory, ids),
        spread=None if graph.spread is None else _spread(graph.spread, order),
    )


def _ops(graph: Graph, changes: Changes, order: Int64, new_names: list[int]) -> OpColumns:
    made = {}
    for item in fields(OpColumns):
        name, old = item.name, getattr(graph.ops, item.name)
        new = [i.row.get(name, DEFAULTS[name]) for i in changes.inserted]
        if name == "name":
            new = new_names
        made[name] = np.concatenate([old, np.array(new, old.dtype)])[order]
    made["instance"] = _fewer_than_ops(made["instance"])
    return OpColumns(**made)


def _fewer_than_ops(instances: NDArray[np.int32]) -> NDArray[np.int32]:
    """Instances, counted anew where removals left numbers that no graph of this size has."""
    if instances.max(initial=NONE) < len(instances):
        return instances
    joined, counted = instances != NONE, instances.copy()
    counted[joined] = np.unique(instances[joined], return_inverse=True)[1]
    return counted


@dataclass(frozen=True)
class _Links:
    """Dependencies as rows."""

    op: Int64
    src: Int64
    kind: Int64
    inferred: Bool

    def where(self, chosen: Bool | Int64) -> "_Links":
        return _Links(self.op[chosen], self.src[chosen], self.kind[chosen], self.inferred[chosen])

    def joined(self, other: "_Links") -> "_Links":
        both = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(_Links))
        return _Links(*map(np.concatenate, both))

    def once(self) -> "_Links":
        """Sorted by (op, src), equal links only once."""
        order = np.lexsort((self.src, self.op))
        op, src = self.op[order], self.src[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (op[1:] != op[:-1]) | (src[1:] != src[:-1])
        return self.where(order[fresh])


def _links(graph: Graph, changes: Changes) -> _Links:
    deps = graph.deps
    op = np.repeat(np.arange(len(graph)), np.diff(deps.ptr))
    links = _Links(op, deps.src.astype(np.int64), deps.kind.astype(np.int64), deps.inferred)
    if changes.unlinked:
        gone = np.array(sorted(changes.unlinked), np.int64)
        width = len(graph)
        taken = np.isin(links.op * width + links.src, gone[:, 1] * width + gone[:, 0])
        links = links.where(~taken)
    if changes.linked:
        added = np.array([(s, o, k) for s, o, k in changes.linked], np.int64)
        none = np.zeros(len(added), np.bool_)
        links = links.joined(_Links(added[:, 1], added[:, 0], added[:, 2], none))
    return links


def _bridged(links: _Links, removed: set[int]) -> _Links:
    """Links of removed ops taken out; who waited for one waits for what that one waited for."""
    if not removed:
        return links
    gone = np.fromiter(removed, np.int64)
    behind = links.where(np.isin(links.op, gone)).once()  # sorted by op, for look-up
    links = links.where(~np.isin(links.op, gone))
    for _ in range(len(removed) + 1):
        loose = np.isin(links.src, gone)
        if not loose.any():
            return links.once()
        kept, through = links.where(~loose), links.where(loose)
        first = np.searchsorted(behind.op, through.src)
        count = np.searchsorted(behind.op, through.src, "right") - first
        row = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        bridge = through.where(np.repeat(np.arange(len(count)), count))
        links = kept.joined(replace(bridge, src=behind.src[row]).once())
    raise GraphError(f"removed ops wait for each other in a cycle, op {gone.min()} among them")


def _with_ids(links: _Links, ids: Int64) -> _Links:
    return replace(links, op=ids[links.op], src=ids[links.src])


def _csr(count: int, links: _Links) -> Dependencies:
    links = links.once()
    ptr = np.concatenate([[0], np.cumsum(np.bincount(links.op, minlength=count))])
    return Dependencies(
        ptr.astype(np.int64),
        links.src.astype(np.int32),
        links.kind.astype(np.uint8),
        links.inferred,
    )


def _drains(drains: Drains, ids: Int64) -> Drains:
    op = ids[drains.op]
    kept = np.flatnonzero(op != NONE)
    kept = kept[np.argsort(op[kept], kind="stable")]
    return Drains(op[kept].astype(np.int32), drains.lane[kept])


def _memory(memory: MemoryEvents, ids: Int64) -> MemoryEvents:
    op = ids[memory.op]
    kept = np.flatnonzero(op != NONE)
    kept = kept[np.argsort(op[kept], kind="stable")]
    return MemoryEvents(
        op[kept].astype(np.int32),
        memory.device[kept],
        memory.delta_bytes[kept],
        memory.category[kept],
        memory.at_end[kept],
    )


def _spread(spread: Spread, order: Int64) -> Spread:
    """Samples in the new order; inserted ops have none."""
    known = len(spread.ptr) - 1
    inserted = np.zeros(max(0, int(order.max(initial=-1)) + 1 - known), np.int64)
    first = np.concatenate([spread.ptr[:-1], inserted])
    sizes = np.concatenate([np.diff(spread.ptr), inserted])
    taken = sizes[order]
    ptr = np.concatenate([[0], np.cumsum(taken)])
    row = np.repeat(first[order] - ptr[:-1], taken) + np.arange(ptr[-1])
    return Spread(ptr, spread.samples_ns[row])


def _stretched(graph: Graph, spread: Spread, dur_ns: Int64) -> Spread:
    """Samples scaled as their op's duration was; dropped where it has no old or new price."""
    old = graph.ops.dur_ns
    changed = dur_ns != old
    priced = (old > 0) & (dur_ns != UNPRICED)
    owner = np.repeat(np.arange(len(old)), np.diff(spread.ptr))
    factor = np.where(changed & priced, dur_ns / np.where(old > 0, old, 1), 1.0)
    samples = np.rint(spread.samples_ns * factor[owner]).astype(np.int64)
    samples = np.where(factor[owner] == 1.0, spread.samples_ns, samples)
    kept = ~(changed & ~priced)[owner]
    sizes = np.bincount(owner[kept], minlength=len(old))
    return Spread(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), samples[kept])
