"""The new ops: a rank packs and hands over behind what readies the gradient of a layer's result,
and waits and unpacks before the product of all rows."""

from dataclasses import dataclass, replace

import numpy as np

from paceline.graph.border import UNSCALED
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import (
    NONE,
    UNPRICED,
    Collective,
    DepKind,
    DType,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.graph.links import Links
from paceline.graph.new_calls import PLAIN, handed_ns, instances
from paceline.graph.rebucket.source import Source
from paceline.graph.splice import Sort, in_turn, placed, spliced
from paceline.graph.sufficient_factors.gathers import Gathers
from paceline.graph.weight_products import WeightGradients

_NAMES = ("pack factors", "hand factors over", "gather factors", "wait for factors",
          "put factors together")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Places:
    """Where ops stand behind the change."""

    old: Int64  # by old id
    opens: Int64  # by old id of a product: the first new op that belongs to it, else itself

    def waiting(self, made: WeightGradients) -> WeightGradients:
        """Stretches with what waits and unpacks before their product."""
        return WeightGradients(
            made.parameter, self.old[made.begins], self.opens[made.first], self.old[made.last]
        )


def with_gathers(
    graph: Graph, source: Source, gathers: Gathers, gone: Bool
) -> tuple[Graph, Places]:
    """`gone`: what is taken out by the way. On a device a kernel waits in place of the thread."""
    every = np.arange(len(gathers.step))
    on_device = graph.lanes.kind[graph.ops.lane[gathers.first]] == LaneKind.STREAM
    thread, device = np.flatnonzero(~on_device), np.flatnonzero(on_device)
    begins, first, whole = gathers.begins, gathers.first, gathers.size_bytes
    handing = _Role(OpKind.HOST, 1, Phase.COMMUNICATION, dur_ns=handed_ns(graph, source))
    sorts = [
        _sort(graph, begins, every, _packing(gathers)),
        _sort(graph, source.launcher[begins], every, handing),
        _calls(graph, source, gathers),
        _sort(graph, first, thread, _Role(OpKind.WAIT, 3, Phase.BACKWARD)),
        _sort(graph, first, every, _Role(OpKind.COMPUTE, 4, Phase.BACKWARD, UNPRICED, 2 * whole)),
    ]
    added, (pack, host, call, wait, unpack) = in_turn(len(graph), sorts)
    made = Links.by_kind(
        [
            (DepKind.DATA, call, pack),
            (DepKind.LAUNCH, call, host),
            (DepKind.LAUNCH, pack[device], host[device]),
            (DepKind.LAUNCH, unpack[device], source.launcher[first[device]]),
            (DepKind.EVENT, unpack[device], call[device]),
            (DepKind.WAIT, wait, call[thread]),
        ]
    )
    place = placed(gone, added)
    opens = place[: len(graph)].copy()
    opens[first] = place[unpack]
    opens[first[thread]] = place[wait]
    named = replace(graph, names=(*graph.names, *_NAMES))
    return spliced(named, gone, added, source.links.joined(made)), Places(place, opens)


@dataclass(frozen=True)
class _Role:
    """What a thread or a stream does for each of the gathers."""

    kind: OpKind
    part: int  # in the order in which its ops stand; and its name
    phase: Phase
    dur_ns: int = 0
    touches: Int64 | None = None  # bytes


def _packing(gathers: Gathers) -> _Role:
    """It reads and writes what the rank hands over."""
    own = gathers.size_bytes // gathers.members
    return _Role(OpKind.COMPUTE, 0, Phase.COMMUNICATION, UNPRICED, 2 * own)


def _sort(graph: Graph, before: Int64, chosen: Int64, role: _Role) -> Sort:
    """Each stands before an op, on its lane."""
    like = before[chosen]
    columns = {
        "like": like,
        "behind": like - 1,
        "kind": role.kind,
        "dur_ns": role.dur_ns,
        "lane": graph.ops.lane[like],
        "size_bytes": 0 if role.touches is None else role.touches[chosen],
        "collective": Collective.NONE,
        "dtype": DType.NONE,
        "group": NONE,
        "instance": NONE,
        "name": len(graph.names) + role.part,
        "layer": NONE,
        "phase": role.phase,
    }
    return Sort(len(_NAMES) * chosen + role.part, {**columns, **PLAIN})


def _calls(graph: Graph, source: Source, gathers: Gathers) -> Sort:
    like = source.first[gathers.step]
    columns = {
        "like": like,
        "behind": gathers.begins - 1,
        "kind": OpKind.COLLECTIVE,
        "dur_ns": UNPRICED,
        "lane": graph.ops.lane[like],
        "size_bytes": gathers.size_bytes,
        "collective": Collective.ALL_GATHER,
        "dtype": DType.UINT8,
        "group": graph.ops.group[like],
        "instance": instances(graph, source, gathers.step, gathers.place),
        "name": len(graph.names) + 2,
        "layer": NONE,
        "phase": Phase.COMMUNICATION,
    }
    scale = {"scale_ppb": _scale(graph, source, gathers)}
    return Sort(len(_NAMES) * np.arange(len(like)) + 2, {**columns, **PLAIN, **scale})


def _scale(graph: Graph, source: Source, gathers: Gathers) -> Int64:
    """Of each gather's price: a library's threads run those that follow beside one another."""
    lanes = graph.ops.lane[source.first[gathers.step]]
    follows = (gathers.place > 0) & (graph.lanes.kind[lanes] == LaneKind.COMM_THREAD)
    return np.where(follows, round(UNSCALED * gathers.beside), UNSCALED)
