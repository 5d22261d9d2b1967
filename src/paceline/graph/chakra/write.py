"""A graph as Chakra traces: one file a rank, and the two files that belong to all of them.

ASTRA-sim replays compute nodes by their duration and simulates collectives and messages itself.
An op of a RECORDED lane gets a control dependency on the one before it, which the feeder needs to
keep the queue's order. Links between ranks are not Chakra's: they stay in `paceline.` attributes.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from paceline.errors import FileError
from paceline.graph.atomic import atomic_folder, write_durably
from paceline.graph.border import UNSCALED
from paceline.graph.chakra.schema import COMM_NUMBERS, VERSION, messages
from paceline.graph.chakra.stream import write_messages
from paceline.graph.chakra.words import (
    COMMUNICATION,
    FORMAT,
    GRAPH_FILE,
    GROUPS_FILE,
    NODE_TYPES,
    OP_KINDS,
    SCHEMA,
    DeviceEntry,
    GroupEntry,
    LaneEntry,
    Sidecar,
)
from paceline.graph.graph import Graph, Op
from paceline.graph.kinds import NONE, Collective, DepKind, DeviceKind, Discipline, OpKind
from paceline.graph.plain_facts import plain_facts

_LOG = logging.getLogger(__name__)
_CONTROL = frozenset({DepKind.ORDER, DepKind.CONTROL})
_TAGS = 2**31  # comm_tag is an int32


def write_chakra(graph: Graph, path: str | Path) -> Path:
    """Write `trace.RANK.et` for every rank, `comm_group.json` and `graph.json` as a folder."""
    path = Path(path)
    _warn_of_losses(graph)
    sidecar = _sidecar_text(graph, path)
    rows = _Rows(graph)
    with atomic_folder(path, _is_ours) as folder:
        for rank in graph.ranks:
            write_messages(folder / f"trace.{rank}.et", rows.of_rank(rank))
        write_durably(folder / GROUPS_FILE, _groups_text(graph).encode())
        write_durably(folder / GRAPH_FILE, sidecar.encode())
    return path


class _Rows:
    """Makes the nodes of a graph's ops."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._before = _previous_on_recorded_lane(graph)
        self._peers = _peers(graph)

    def of_rank(self, rank: int) -> Iterator[Any]:
        """The file's metadata, then its nodes by id."""
        kinds = messages()
        yield kinds.metadata(version=VERSION)
        for op in np.flatnonzero(self.graph.ops.rank == rank):
            yield self._node(self.graph[int(op)], kinds.node)

    def _node(self, op: Op, make: Any) -> Any:
        node = make(
            id=op.id,
            name=op.name,
            type=NODE_TYPES[op.kind],
            duration_micros=(max(op.dur_ns, 0) + 500) // 1000,
        )
        self._add_dependencies(node, op)
        for name, kind, value in (*self._known(op), *self._own(op)):
            node.attr.add(name=name, **{f"{kind}_val": value})
        return node

    def _add_dependencies(self, node: Any, op: Op) -> None:
        deps, rank = self.graph.deps, self.graph.ops.rank
        data: list[int] = []
        control: list[int] = []
        remote: list[int] = []
        for row in range(int(deps.ptr[op.id]), int(deps.ptr[op.id + 1])):
            local = control if deps.kind[row] in _CONTROL else data
            (local if rank[deps.src[row]] == op.rank else remote).append(row)
        node.data_deps.extend(deps.src[data].tolist())
        node.ctrl_deps.extend(deps.src[control].tolist())
        before = int(self._before[op.id])
        if before != NONE and before not in op.deps:
            node.ctrl_deps.append(before)
            node.attr.add(name="paceline.lane_dep", uint64_val=before)
        if remote:
            sources = deps.src[remote].tolist()
            node.attr.add(name="paceline.remote_deps").uint64_list.values.extend(sources)
        rows = data + control + remote
        if rows:
            kinds = deps.kind[rows].tolist()
            node.attr.add(name="paceline.dep_kinds").int32_list.values.extend(kinds)
        if deps.inferred[rows].any():
            inferred = deps.inferred[rows].tolist()
            node.attr.add(name="paceline.dep_inferred").bool_list.values.extend(inferred)

    def _known(self, op: Op) -> Iterator[tuple[str, str, Any]]:
        """Attributes that ASTRA-sim knows, of the types its feeder asks for."""
        ops, i = self.graph.ops, op.id
        if op.kind not in COMMUNICATION:
            device = self.graph.devices[int(self.graph.lanes.device[op.lane])]
            yield "is_cpu_op", "bool", device.kind is DeviceKind.CPU
            yield "num_ops", "int64", int(ops.flops[i])
            yield "tensor_size", "uint64", max(op.size_bytes, 0)
            return
        yield "is_cpu_op", "bool", False  # the feeder refuses communication on a CPU
        yield "comm_size", "int64", op.size_bytes
        yield "comm_priority", "int32", int(ops.priority[i])
        if ops.group[i] != NONE:
            yield "pg_name", "string", str(int(ops.group[i]) + 1)
        if op.collective in COMM_NUMBERS:
            yield "comm_type", "int64", COMM_NUMBERS[op.collective]
        if op.kind is not OpKind.COLLECTIVE:
            peer = self._peers.get(i, op.rank)
            pair = (op.rank, peer) if op.kind is OpKind.SEND else (peer, op.rank)
            yield "comm_src", "int32", pair[0]
            yield "comm_dst", "int32", pair[1]
            yield "comm_tag", "int32", max(int(ops.instance[i]), 0) % _TAGS

    def _own(self, op: Op) -> Iterator[tuple[str, str, Any]]:
        """Attributes that only Paceline reads; those at their default are left out."""
        ops, i = self.graph.ops, op.id
        yield "paceline.lane", "int32", op.lane
        yield "paceline.dur_ns", "int64", op.dur_ns
        if op.kind is not OP_KINDS[NODE_TYPES[op.kind]]:
            yield "paceline.kind", "int32", int(op.kind)
        said = op.kind in COMMUNICATION and op.collective in COMM_NUMBERS
        if op.collective is not Collective.NONE and not said:
            yield "paceline.collective", "int32", int(op.collective)
        for name in ("phase", "dtype", "priority", "step", "basis"):
            if value := int(getattr(ops, name)[i]):
                yield f"paceline.{name}", "int32", value
        for name in ("group", "instance"):
            if (value := int(getattr(ops, name)[i])) != NONE:
                yield f"paceline.{name}", "int32", value
        for name in ("flops", "size_bytes"):
            if value := int(getattr(ops, name)[i]):
                yield f"paceline.{name}", "int64", value
        if (scale := int(ops.scale_ppb[i])) != UNSCALED:
            yield "paceline.scale_ppb", "int64", scale
        for name in ("layer", "tensor"):
            if int(getattr(ops, name)[i]) != NONE:
                yield f"paceline.{name}", "string", getattr(op, name)


def _previous_on_recorded_lane(graph: Graph) -> Any:
    """For each op the one before it on its recorded lane, or NONE."""
    lane = graph.ops.lane
    order = np.argsort(lane, kind="stable")
    before = np.full(len(graph), NONE, np.int64)
    same = lane[order][1:] == lane[order][:-1]
    recorded = graph.lanes.discipline[lane[order][1:]] == Discipline.RECORDED
    keep = same & recorded
    before[order[1:][keep]] = order[:-1][keep]
    return before


def _peers(graph: Graph) -> dict[int, int]:
    """For each SEND and RECV the rank at the other end."""
    ops = graph.ops
    sides = np.flatnonzero(np.isin(ops.kind, [OpKind.SEND, OpKind.RECV]) & (ops.instance != NONE))
    members: dict[int, list[int]] = {}
    for op in sides.tolist():
        members.setdefault(int(ops.instance[op]), []).append(op)
    pairs = [pair for pair in members.values() if len(pair) == 2]
    return {op: int(ops.rank[b if op == a else a]) for a, b in pairs for op in (a, b)}


def _warn_of_losses(graph: Graph) -> None:
    counts = {
        "memory events": len(graph.memory.op),
        "run-time dependencies": len(graph.drains.op),
        "duration samples": 0 if graph.spread is None else len(graph.spread.samples_ns),
    }
    if lost := [f"{count} {what}" for what, count in counts.items() if count]:
        _LOG.warning("Chakra has no place for %s: left out", ", ".join(lost))
    owner = np.repeat(np.arange(len(graph)), np.diff(graph.deps.ptr))
    between = int(np.sum(graph.ops.rank[owner] != graph.ops.rank[graph.deps.src]))
    if between:
        _LOG.warning("%d links between ranks are kept for Paceline; ASTRA-sim skips them", between)


def _groups_text(graph: Graph) -> str:
    """ASTRA-sim's communicator groups: positive numbers; 0 would be all ranks."""
    return json.dumps({str(i + 1): list(group.ranks) for i, group in enumerate(graph.groups)})


def _sidecar_text(graph: Graph, path: Path) -> str:
    lanes = graph.lanes
    columns = (lanes.rank, lanes.device, lanes.kind, lanes.discipline)
    rows = zip(*(column.tolist() for column in columns), lanes.name)
    sidecar = Sidecar(
        FORMAT,
        SCHEMA,
        [LaneEntry(*row) for row in rows],
        [DeviceEntry(d.name, d.host, int(d.kind), d.memory_bytes) for d in graph.devices],
        [GroupEntry(g.name, g.ranks, g.axis.value) for g in graph.groups],
        dict(graph.meta),
        plain_facts(graph.facts),
    )
    try:
        return json.dumps(msgspec.to_builtins(sidecar), indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise FileError(
            f"cannot write {path}: the graph's meta does not fit into JSON ({error})"
        ) from error


def _is_ours(path: Path) -> bool:
    """True for a folder that `write_chakra` wrote, so that it may be replaced."""
    names = {p.name for p in path.iterdir()}
    ours = {GROUPS_FILE, GRAPH_FILE}
    return ours <= names and all(n.endswith(".et") for n in names - ours)
