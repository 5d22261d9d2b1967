"""A timeline as columns that the page draws."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from paceline.graph import Graph, LaneKind
from paceline.graph.graph import Int32, Int64
from paceline.replay import Timeline
from paceline.report.page.columns import Column
from paceline.report.page.contents import Kind, LaneRow, Track


def track(kind: Kind, title: str, timeline: Timeline) -> Track:
    """All of a timeline's ops, with what each waited for."""
    graph, path = timeline.graph, timeline.critical_path
    pool = _Pool(graph)
    columns = {**_times(timeline), **_words(graph, pool), **_links(graph, timeline)}
    return Track(
        kind=kind.value,
        title=title,
        lanes=lanes_of(graph),
        names=pool.texts,
        groups=tuple(group.name for group in graph.groups),
        shapes={p.name: p.shape for p in graph.facts.parameters if p.shape},
        span_ns=timeline.step_ns,
        steps=steps_of(timeline),
        path={"op": Column(path.ops), "share": Column(path.share_ns)},
        columns=columns,
    )


def hosts_of(graph: Graph) -> dict[int, int]:
    """By rank: the host of its first lane."""
    found: dict[int, int] = {}
    for rank, device in zip(graph.lanes.rank.tolist(), graph.lanes.device.tolist()):
        found.setdefault(rank, graph.devices[device].host)
    return found


class _Pool:
    """The texts that columns of a graph use, and new indices into them."""

    def __init__(self, graph: Graph) -> None:
        ops = graph.ops
        used = np.unique(np.concatenate([ops.name, ops.layer, ops.tensor]))
        self._used = used[used >= 0]
        self.texts = tuple(graph.names[index] for index in self._used.tolist())

    def __call__(self, column: Int32) -> NDArray[np.int64]:
        return np.where(column < 0, -1, np.searchsorted(self._used, column))


def _times(timeline: Timeline) -> Mapping[str, Column]:
    return {
        "start": Column(timeline.start_ns),
        "took": Column(timeline.end_ns - timeline.start_ns),
        "waited": Column(timeline.start_ns - timeline.ready_ns),
        "slack": Column(timeline.slack_ns),
    }


def _words(graph: Graph, pool: _Pool) -> Mapping[str, Column]:
    ops = graph.ops
    return {
        "lane": Column(ops.lane),
        "kind": Column(ops.kind),
        "phase": Column(ops.phase),
        "name": Column(pool(ops.name)),
        "layer": Column(pool(ops.layer)),
        "tensor": Column(pool(ops.tensor)),
        "bytes": Column(ops.size_bytes),
        "flops": Column(ops.flops),
        "dtype": Column(ops.dtype),
        "collective": Column(ops.collective),
        "group": Column(ops.group),
        "instance": Column(ops.instance),
        "step": Column(ops.step),
        "basis": Column(ops.basis),
    }


def _links(graph: Graph, timeline: Timeline) -> Mapping[str, Column]:
    """Dependencies by how many ids back they lie; and what a lane served before, where that is
    not simply the op before on it."""
    deps = graph.deps
    count = np.diff(deps.ptr)
    owner = np.repeat(np.arange(len(graph)), count)
    samples = graph.spread
    found = {
        "deps": Column(count),
        "back": Column(owner - deps.src),
        "link": Column(deps.kind),
        "previous": Column(_back(timeline.previous)),
        "priority": Column(graph.ops.priority),
        "drain_op": Column(graph.drains.op),
        "drain_lane": Column(graph.drains.lane),
    }
    if samples is not None:
        found["samples"] = Column(np.diff(samples.ptr))
        found["sample"] = Column(samples.samples_ns)
    return found


def _back(previous: Int32) -> Int64:
    """How many ids back; 0 where nothing was before."""
    return np.where(previous < 0, 0, np.arange(len(previous)) - previous)


def lanes_of(graph: Graph) -> tuple[LaneRow, ...]:
    host = hosts_of(graph)
    rows = zip(
        graph.lanes.rank.tolist(),
        graph.lanes.name,
        graph.lanes.kind.tolist(),
        graph.lanes.discipline.tolist(),
    )
    return tuple(
        LaneRow(rank, host[rank], name, LaneKind(kind).name.lower(), discipline)
        for rank, name, kind, discipline in rows
    )


def steps_of(timeline: Timeline) -> tuple[tuple[int, int, int], ...]:
    """Number, first begin and last end of each step."""
    step = timeline.graph.ops.step
    found = []
    for number in np.unique(step[step >= 0]).tolist():
        mine = step == number
        found.append((number, int(timeline.ready_ns[mine].min()), int(timeline.end_ns[mine].max())))
    return tuple(found)
