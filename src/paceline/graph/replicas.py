"""`with_replicas`: a job with another number of workers along its data axis.

A replica is one whole model: a rank, or the ranks of a tensor-parallel group or a pipeline. The
recorded replicas are repeated in turn, so that a recorded difference between them stays; a lone
rank that was recorded of several stands for all of them (`standing`); other axes stay as they are.
"""

from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.alone import alone
from paceline.graph.copying import Copied, copied
from paceline.graph.facts import RankMemory
from paceline.graph.graph import Device, Graph, Group, Int32, Int64, Lanes
from paceline.graph.kinds import NONE, Axis, OpKind, Phase
from paceline.graph.scaled import scaled, unpriced
from paceline.graph.standing import standing

_JOINS_REPLICAS = (Axis.DATA, Axis.WORLD)


@dataclass(frozen=True)
class Layout:
    """How ranks are numbered: rank = inner + stride * (replica + replicas * outer)."""

    replicas: int
    stride: int

    @staticmethod
    def of(graph: Graph) -> "Layout":
        groups = [group for group in graph.groups if group.axis is Axis.DATA]
        if not groups:
            raise GraphError(
                "the recording has no group of workers that share gradients, so its number of "
                "data-parallel workers cannot be changed. Record a job under DDP, FSDP2 or ZeRO "
                "with `paceline record`, on two workers or more."
            )
        if len(graph.ranks) < graph.world_size:
            raise GraphError(
                f"the graph holds {len(graph.ranks)} of the job's {graph.world_size} ranks, so "
                "replicas cannot be added or taken away. Import all of them, or one alone, which "
                "then stands for all."
            )
        found = Layout(len(groups[0].ranks), _stride(groups[0]))
        wrong = next((group for group in groups if found.group_of(group) != group.ranks), None)
        if wrong is not None or graph.world_size % (found.replicas * found.stride):
            shown = list((wrong or groups[0]).ranks)
            raise GraphError(
                f"the data-parallel groups are not spaced evenly ({shown} is one of them), so it "
                "is not known which rank a new replica's would be"
            )
        return found

    def replica(self, ranks: Int32) -> Int64:
        found: Int64 = ranks.astype(np.int64) // self.stride % self.replicas
        return found

    def moved(self, rank: Int64, replica: Int64, replicas: int) -> Int64:
        """The rank of the same part of the model in another replica of another layout."""
        inner, outer = rank % self.stride, rank // (self.stride * self.replicas)
        found: Int64 = inner + self.stride * (replica + replicas * outer)
        return found

    def group_of(self, group: Group) -> tuple[int, ...]:
        first = np.full(self.replicas, group.ranks[0], np.int64)
        ranks = self.moved(first, np.arange(self.replicas), self.replicas)
        return tuple(ranks.tolist()) if len(group.ranks) == self.replicas else ()


def replicas_of(graph: Graph) -> int:
    """Workers along the data axis."""
    return Layout.of(graph).replicas


def with_replicas(graph: Graph, count: int) -> Graph:
    """The job on `count` replicas. What joins replicas is left for a cluster to price; an update
    that is cut among them (FSDP2, ZeRO) is cut anew; calls that a lone shard has nobody for go."""
    if count < 1:
        raise GraphError(f"{count} workers were asked for; give 1 or more")
    stood = standing(graph)
    layout = Layout.of(stood)
    if count == layout.replicas and stood is graph:
        return graph
    graph = alone(stood) if count == 1 else stood
    replica = layout.replica(graph.ops.rank)
    rows = [np.flatnonzero(replica == new % layout.replicas) for new in range(count)]
    made = copied(graph, rows)
    numbered = _numbered(graph, made, layout, count)
    facts = replace(
        graph.facts,
        world_size=graph.world_size // layout.replicas * count,
        memory=_held(graph, layout, count),
    )
    return _with_update(replace(numbered, facts=facts), layout.replicas, count)


def _stride(group: Group) -> int:
    return group.ranks[1] - group.ranks[0] if len(group.ranks) > 1 else 1


def _numbered(graph: Graph, made: Copied, layout: Layout, count: int) -> Graph:
    """Lanes, devices, groups and instances of their own for each new replica."""
    lanes, lane_of = _lanes(graph, layout, count)
    groups, group_of = _groups(graph, layout, count)
    old, copy = made.graph.ops, made.copy
    joins = np.isin(old.group, _joining(graph))
    group = np.where(old.group == NONE, NONE, group_of[copy, old.group])
    ops = replace(
        old,
        rank=layout.moved(old.rank.astype(np.int64), copy, count).astype(np.int32),
        lane=lane_of[copy, old.lane].astype(np.int32),
        group=group.astype(np.int32),
        instance=_instances(old.instance, np.where(joins, 0, copy)),
    )
    drains = made.graph.drains
    if len(drains.op):
        drains = replace(drains, lane=lane_of[copy[drains.op], drains.lane].astype(np.int32))
    devices, device_of = _devices(graph, lanes[1], lanes[2])
    memory = made.graph.memory
    if len(memory.op):
        memory = replace(memory, device=device_of[copy[memory.op], memory.device].astype(np.int32))
    table = _rows_of_lanes(graph.lanes, lanes[1])
    new_rank = layout.moved(graph.lanes.rank[lanes[1]].astype(np.int64), lanes[2], count)
    table = replace(
        table,
        rank=new_rank.astype(np.int32),
        device=device_of[lanes[2], graph.lanes.device[lanes[1]]].astype(np.int32),
    )
    whole = replace(
        made.graph,
        ops=ops,
        lanes=table,
        groups=groups,
        devices=devices,
        drains=drains,
        memory=memory,
    )
    return unpriced(whole, joins)


def _held(graph: Graph, layout: Layout, count: int) -> tuple[RankMemory, ...]:
    """Each new replica's ranks hold what those that they repeat do."""
    ranks = np.array([held.rank for held in graph.facts.memory], np.int32)
    replica = layout.replica(ranks)
    found = []
    for new in range(count):
        for row in np.flatnonzero(replica == new % layout.replicas).tolist():
            held = graph.facts.memory[row]
            at = layout.moved(np.array([held.rank]), np.array([new]), count)
            found.append(replace(held, rank=int(at[0])))
    return tuple(sorted(found, key=lambda held: held.rank))


def _rows_of_lanes(lanes: Lanes, rows: Int64) -> Lanes:
    return Lanes(
        lanes.rank[rows],
        lanes.device[rows],
        lanes.kind[rows],
        lanes.discipline[rows],
        tuple(lanes.name[row] for row in rows.tolist()),
    )


def _joining(graph: Graph) -> list[int]:
    return [row for row, g in enumerate(graph.groups) if g.axis in _JOINS_REPLICAS]


def _lanes(graph: Graph, layout: Layout, count: int) -> tuple[tuple[int, Int64, Int64], Int64]:
    """Old lane and replica of each new lane, and the new lane by replica and old lane."""
    replica = layout.replica(graph.lanes.rank)
    parts = [np.flatnonzero(replica == new % layout.replicas) for new in range(count)]
    old = np.concatenate(parts)
    copy = np.repeat(np.arange(count), [len(part) for part in parts])
    found = np.full((count, len(graph.lanes)), NONE, np.int64)
    found[copy, old] = np.arange(len(old))
    return (len(old), old, copy), found


def _devices(graph: Graph, lane: Int64, copy: Int64) -> tuple[tuple[Device, ...], Int64]:
    """Each replica has devices of its own."""
    copies = int(copy.max()) + 1
    found = np.full((copies, len(graph.devices)), NONE, np.int64)
    made: list[Device] = []
    hosts: dict[tuple[int, int], int] = {}
    for replica, device in dict.fromkeys(zip(copy.tolist(), graph.lanes.device[lane].tolist())):
        old = graph.devices[device]
        found[replica, device] = len(made)
        host = hosts.setdefault((replica, old.host), len(hosts))
        made.append(replace(old, host=host))
    return tuple(made), found


def _groups(graph: Graph, layout: Layout, count: int) -> tuple[tuple[Group, ...], Int64]:
    """Groups that join replicas reach over all of them; of others each replica has its own."""
    made: list[Group] = []
    found = np.full((count, max(1, len(graph.groups))), NONE, np.int64)
    everyone = tuple(range(graph.world_size // layout.replicas * count))
    for row, group in enumerate(graph.groups):
        ranks = np.array(group.ranks, np.int64)
        if group.axis is Axis.WORLD:
            found[:, row] = len(made)
            made.append(replace(group, ranks=everyone))
        elif group.axis is Axis.DATA:
            found[:, row] = len(made)
            spread = layout.moved(np.full(count, ranks[0]), np.arange(count), count)
            made.append(replace(group, ranks=tuple(spread.tolist())))
        else:
            mine = int(layout.replica(ranks.astype(np.int32))[0])
            for new in range(mine, count, layout.replicas):
                found[new, row] = len(made)
                there = layout.moved(ranks, np.full(len(ranks), new), count)
                made.append(replace(group, ranks=tuple(there.tolist())))
    return tuple(made), found


def _instances(instance: Int32, copy: Int64) -> Int32:
    """Members of one instance and copy are joined."""
    found = np.full(len(instance), NONE, np.int32)
    members = instance != NONE
    width = int(instance.max(initial=NONE)) + 1
    numbers = copy[members] * width + instance[members]
    found[members] = np.unique(numbers, return_inverse=True)[1]
    return found


def _with_update(graph: Graph, before: int, count: int) -> Graph:
    """Arithmetic of the update goes with the shard; the host goes over all tensors as before."""
    if graph.facts.update_shards != before or before == 1:
        return graph
    update = (graph.ops.kind == OpKind.COMPUTE) & (graph.ops.phase == Phase.UPDATE)
    memory = tuple(
        replace(held, weight_shards=count) if held.weight_shards == before else held
        for held in graph.facts.memory
    )
    facts = replace(graph.facts, update_shards=count, memory=memory)
    return replace(scaled(graph, update, before / count), facts=facts)
