"""Chakra traces as a graph: Paceline's own exactly, those of other programs by Chakra's rules.

Node ids are only unique within a rank, so ops are numbered by (node id, rank). A trace of another
program names neither lanes nor instances of collectives: `joins` works them out.
"""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np

from paceline.errors import FileError
from paceline.graph.border import UNSCALED
from paceline.graph.builder import GraphBuilder
from paceline.graph.chakra.joins import Inferred, Recorded, Where, read_groups, read_sidecar
from paceline.graph.chakra.node import INT32, INT64, Node, nodes_of
from paceline.graph.chakra.schema import COMM_TYPES, NodeType
from paceline.graph.chakra.words import COMMUNICATION, OP_KINDS, SCHEMA, Sidecar
from paceline.graph.earlier_schemas import facts_of_notes
from paceline.graph.facts import Facts
from paceline.graph.files import checked
from paceline.graph.graph import Graph
from paceline.graph.kinds import NONE, UNPRICED, Basis, Collective, DepKind, DType, OpKind, Phase
from paceline.graph.plain_facts import typed_facts

_LOG = logging.getLogger(__name__)
_FILE = re.compile(r"(?P<prefix>.*)\.(?P<rank>\d{1,7})\.et")


def read_chakra(path: str | Path) -> Graph:
    """The graph of a folder of `NAME.RANK.et` files, or of one such file."""
    path = Path(path)
    files = trace_files(path)
    folder = path if path.is_dir() else path.parent
    nodes = [node for rank, file in files.items() for node in nodes_of(rank, file)]
    nodes.sort(key=lambda node: (node.message.id, node.rank))
    sidecar = read_sidecar(folder)
    b = GraphBuilder({"source": "chakra"})
    if sidecar:
        b = GraphBuilder(sidecar.meta, facts_in_file(sidecar, path))
    groups = {} if sidecar else read_groups(folder)
    where = Recorded(b, sidecar) if sidecar else Inferred(b, tuple(files), groups)
    ids = Ids(nodes)
    for node in nodes:
        _add_op(b, node, where)
    for op, node in enumerate(nodes):
        _link(b, op, node, ids)
    return checked(b.build(), path)


def trace_files(path: Path) -> dict[int, Path]:
    """The trace of each rank."""
    if not path.exists():
        raise FileError(f"{path} does not exist. Give a folder of Chakra traces, or one .et file.")
    files = sorted(path.glob("*.et")) if path.is_dir() else [path]
    matches = [(file, match) for file in files if (match := _FILE.fullmatch(file.name))]
    prefixes = {match["prefix"] for _, match in matches}
    if len(prefixes) != 1:
        raise FileError(
            f"{path} holds traces named {sorted(prefixes) or 'otherwise'}; expected one set of "
            "files NAME.RANK.et, such as trace.0.et, trace.1.et. Give each set its own folder."
        )
    return dict(sorted((int(match["rank"]), file) for file, match in matches))


class Ids:
    """Which op a node id is: within its rank, and, where only one rank has it, anywhere."""

    def __init__(self, nodes: list[Node]) -> None:
        self._ops: dict[tuple[int, int], int] = {}
        self.anywhere: dict[int, int] = {}
        for op, node in enumerate(nodes):
            if self._ops.setdefault((node.rank, node.message.id), op) != op:
                raise FileError(f"{node}: its id stands there twice. Write the trace anew.")
            self.anywhere[node.message.id] = op

    def local(self, node: Node, source: int) -> int:
        if (node.rank, source) not in self._ops:
            raise FileError(f"{node}: it waits for node {source}, which is not in the file")
        return self._ops[node.rank, source]


def _add_op(b: GraphBuilder, node: Node, where: Where) -> None:
    kind = _kind(node)
    collective = _collective(node, kind)
    b.op(
        node.message.name,
        where.lane(node, kind),
        _duration(node, kind),
        kind=kind,
        phase=node.member("paceline.phase", Phase),
        layer=node.text("paceline.layer"),
        tensor=node.text("paceline.tensor"),
        collective=collective,
        dtype=node.member("paceline.dtype", DType),
        size_bytes=_size(node, kind),
        flops=node.integer("paceline.flops", node.integer("num_ops", 0, high=INT64), high=INT64),
        group=where.group(node, kind),
        instance=where.instance(node, kind),
        priority=node.integer("paceline.priority", 0, low=-INT32 - 1),
        step=node.integer("paceline.step", 0, low=-INT32 - 1),
        basis=node.member("paceline.basis", Basis),
        scale_ppb=node.integer("paceline.scale_ppb", UNSCALED, high=INT64),
    )


def facts_in_file(sidecar: Sidecar, path: Path) -> Facts:
    """The job's facts; schema 1 kept them among its notes."""
    if sidecar.schema < SCHEMA:
        return facts_of_notes(sidecar.meta)
    return typed_facts(sidecar.facts, path)


def _kind(node: Node) -> OpKind:
    if "paceline.kind" in node.attributes:
        return node.member("paceline.kind", OpKind)
    if node.message.type not in OP_KINDS:
        raise FileError(
            f"{node}: its type is {node.message.type}, known are 0 to {max(OP_KINDS)}. "
            "A newer Chakra may have written it: upgrade Paceline."
        )
    return OP_KINDS[NodeType(node.message.type)]


def _collective(node: Node, kind: OpKind) -> Collective:
    if "paceline.collective" in node.attributes:
        return node.member("paceline.collective", Collective)
    if "comm_type" in node.attributes:
        return COMM_TYPES[node.integer("comm_type", 0, high=max(COMM_TYPES))]
    foreign_message = kind in (OpKind.SEND, OpKind.RECV) and not node.own
    return Collective.POINT_TO_POINT if foreign_message else Collective.NONE


def _size(node: Node, kind: OpKind) -> int:
    if node.own:
        return node.integer("paceline.size_bytes", 0, low=-INT64 - 1, high=INT64)
    name = "comm_size" if kind in COMMUNICATION else "tensor_size"
    return node.integer(name, 0, high=INT64)


def _duration(node: Node, kind: OpKind) -> int:
    """Nanoseconds; UNPRICED where the trace leaves it to a model of hardware or network."""
    if "paceline.dur_ns" in node.attributes:
        return node.integer("paceline.dur_ns", 0, low=UNPRICED, high=INT64)
    micros = int(node.message.duration_micros)
    if micros > INT64 // 1000:
        raise FileError(f"{node}: it takes {micros} us, more than 292 years")
    modelled = kind in COMMUNICATION or "num_ops" in node.attributes
    return UNPRICED if micros == 0 and modelled else micros * 1000


def _link(b: GraphBuilder, op: int, node: Node, ids: Ids) -> None:
    """Add a node's dependencies; `paceline.dep_kinds` lists their kinds in the same order."""
    lane_dep = node.attributes.get("paceline.lane_dep")
    control = [source for source in node.message.ctrl_deps if source != lane_dep]
    remote = node.items("paceline.remote_deps")
    sources = [ids.local(node, source) for source in (*node.message.data_deps, *control)]
    sources += [ids.anywhere.get(source, NONE) for source in remote]
    kinds = node.items("paceline.dep_kinds")
    inferred = node.items("paceline.dep_inferred")
    if len(kinds) != len(sources):  # another program wrote or changed the links
        counts = (len(node.message.data_deps), len(control), len(remote))
        kinds = list(np.repeat([DepKind.DATA, DepKind.ORDER, DepKind.MESSAGE], counts))
    if len(inferred) != len(sources):
        inferred = [False] * len(sources)
    for source, kind, guessed in zip(sources, kinds, inferred):
        if source == NONE:
            _LOG.warning("%s waits for a rank whose trace is not here: link left out", node)
        else:
            b.link(source, op, _dep_kind(node, kind), inferred=bool(guessed))


def _dep_kind(node: Node, number: Any) -> DepKind:
    try:
        return DepKind(number)
    except ValueError as error:
        raise FileError(f"{node}: {number!r} is no kind of dependency") from error
