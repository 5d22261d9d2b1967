"""Which lane, group and collective instance a node belongs to.

`Recorded` reads it from what Paceline wrote. `Inferred` applies ASTRA-sim's rules to the traces of
other programs: a rank has one CPU, one compute and one communication queue, served by node id; the
n-th collective of a group on one rank meets the n-th on the others, and the n-th message with the
same source, destination and tag meets its receive.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

import msgspec

from paceline.errors import FileError
from paceline.graph.builder import GraphBuilder
from paceline.graph.chakra.node import Node
from paceline.graph.chakra.words import (
    COMMUNICATION,
    FORMAT,
    GRAPH_FILE,
    GROUPS_FILE,
    SCHEMA,
    Index,
    Sidecar,
)
from paceline.graph.earlier_schemas import known_axis
from paceline.graph.kinds import NONE, DeviceKind, Discipline, LaneKind, OpKind

_WORLD = ("", "0")
"""Process group names that ASTRA-sim takes for all ranks."""

_QUEUES = {
    OpKind.COLLECTIVE: ("communication", LaneKind.STREAM),
    OpKind.SEND: ("send", LaneKind.LINK_OUT),
    OpKind.RECV: ("receive", LaneKind.LINK_IN),
}


class Where(Protocol):
    """Tells a node's place; each answer is an index for the builder."""

    def lane(self, node: Node, kind: OpKind) -> int: ...

    def group(self, node: Node, kind: OpKind) -> int: ...

    def instance(self, node: Node, kind: OpKind) -> int: ...


class Recorded:
    """The place that Paceline wrote down."""

    def __init__(self, b: GraphBuilder, sidecar: Sidecar) -> None:
        self._lanes = sidecar.lanes
        for device in sidecar.devices:
            b.device(
                device.name,
                host=device.host,
                kind=DeviceKind(device.kind),
                memory_bytes=device.memory_bytes,
            )
        for lane in sidecar.lanes:
            b.lane(
                lane.rank,
                lane.name,
                device=lane.device,
                kind=LaneKind(lane.kind),
                discipline=Discipline(lane.discipline),
            )
        for group in sidecar.groups:
            b.group(group.name, group.ranks, known_axis(group.axis))

    def lane(self, node: Node, kind: OpKind) -> int:
        lane = node.integer("paceline.lane", NONE, low=0, high=len(self._lanes) - 1)
        if self._lanes[lane].rank != node.rank:
            raise FileError(f"{node}: its lane {lane} belongs to rank {self._lanes[lane].rank}")
        return lane

    def group(self, node: Node, kind: OpKind) -> int:
        return node.integer("paceline.group", NONE, low=NONE)

    def instance(self, node: Node, kind: OpKind) -> int:
        return node.integer("paceline.instance", NONE, low=NONE)


class Inferred:
    """The place that ASTRA-sim's rules give."""

    def __init__(
        self, b: GraphBuilder, ranks: tuple[int, ...], groups: dict[str, tuple[int, ...]]
    ) -> None:
        self._b = b
        self._ranks = ranks
        self._members = groups
        self._lanes: dict[tuple[int, str], int] = {}
        self._groups: dict[str, int] = {}
        self._met: Counter[tuple[Any, ...]] = Counter()
        self._instances: dict[tuple[Any, ...], int] = {}

    def lane(self, node: Node, kind: OpKind) -> int:
        on_cpu = bool(node.attributes.get("is_cpu_op", False))
        usual = ("cpu", LaneKind.THREAD) if on_cpu else ("compute", LaneKind.STREAM)
        name, lane_kind = _QUEUES.get(kind, usual)
        key = (node.rank, name)
        if key not in self._lanes:
            self._lanes[key] = self._b.lane(
                node.rank, name, kind=lane_kind, discipline=Discipline.PRIORITY
            )
        return self._lanes[key]

    def group(self, node: Node, kind: OpKind) -> int:
        if kind is not OpKind.COLLECTIVE:
            return NONE
        name = self._group_name(node)
        if name not in self._groups:
            ranks = self._ranks if name == "world" else self._members.get(name)
            if ranks is None:
                raise FileError(
                    f"{node}: its group {name!r} is not in {GROUPS_FILE}, which has "
                    f"{sorted(self._members) or 'none'}. Put that file beside the traces."
                )
            self._groups[name] = self._b.group(name, ranks)
        return self._groups[name]

    def instance(self, node: Node, kind: OpKind) -> int:
        if kind not in COMMUNICATION:
            return NONE
        key = self._meeting(node, kind)
        turn = self._met[(node.rank, kind, key)]
        self._met[(node.rank, kind, key)] += 1
        if (key, turn) not in self._instances:
            self._instances[(key, turn)] = self._b.instance()
        return self._instances[(key, turn)]

    def _meeting(self, node: Node, kind: OpKind) -> tuple[Any, ...]:
        """What the members of one meeting have in common, but for their turn."""
        if kind is OpKind.COLLECTIVE:
            return ("group", self._group_name(node))
        source = node.integer("comm_src", node.rank)
        destination = node.integer("comm_dst", node.rank)
        tag = node.integer("comm_tag", 0, low=-(2**31))
        return ("message", source, destination, tag)

    def _group_name(self, node: Node) -> str:
        name = node.text("pg_name")
        return "world" if name in _WORLD else name


def read_sidecar(folder: Path) -> Sidecar | None:
    """What Paceline wrote beside the traces; None where another program wrote them."""
    path = folder / GRAPH_FILE
    if not path.is_file():
        return None
    raw = _read_json(path)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        return None
    try:
        sidecar = msgspec.convert(raw, Sidecar)
    except msgspec.ValidationError as error:
        raise FileError(f"{path} does not describe traces: {error}. Write them anew.") from error
    if not 1 <= sidecar.schema <= SCHEMA:
        raise FileError(
            f"{path} has schema {sidecar.schema}, this Paceline reads up to {SCHEMA}. "
            "Upgrade Paceline, or write the traces anew."
        )
    return _checked(sidecar, path)


def read_groups(folder: Path) -> dict[str, tuple[int, ...]]:
    """ASTRA-sim's communicator groups, name -> ranks; none where the file is absent."""
    path = folder / GROUPS_FILE
    if not path.is_file():
        return {}
    try:
        return msgspec.convert(_read_json(path), dict[str, tuple[Index, ...]])
    except msgspec.ValidationError as error:
        raise FileError(f'{path} is not of the form {{"1": [0, 1]}}: {error}') from error


def _checked(sidecar: Sidecar, path: Path) -> Sidecar:
    """The sidecar, if its numbers are kinds and devices there are."""
    try:
        for lane in sidecar.lanes:
            LaneKind(lane.kind)
            Discipline(lane.discipline)
            sidecar.devices[lane.device]
        for device in sidecar.devices:
            DeviceKind(device.kind)
    except (ValueError, IndexError) as error:
        raise FileError(f"{path} names a kind or device that is not there: {error}") from error
    return sidecar


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is truncated or no JSON ({error}). Write it anew.") from error
