"""How the words of a graph are said in Chakra, and what Chakra has no word for.

ASTRA-sim knows the attributes `is_cpu_op`, `num_ops`, `tensor_size`, `comm_type`, `comm_size`,
`comm_priority`, `comm_src`, `comm_dst`, `comm_tag` and `pg_name`. What it has no word for goes into
attributes that begin with `paceline.`, which its feeder passes over, and into `graph.json`.
"""

from typing import Annotated, Any

import msgspec

from paceline.graph.chakra.schema import NodeType
from paceline.graph.kinds import OpKind

GROUPS_FILE = "comm_group.json"
GRAPH_FILE = "graph.json"
FORMAT = "paceline chakra"
SCHEMA = 2

NODE_TYPES = {
    OpKind.COMPUTE: NodeType.COMP,
    OpKind.HOST: NodeType.COMP,
    OpKind.COLLECTIVE: NodeType.COMM_COLL,
    OpKind.SEND: NodeType.COMM_SEND,
    OpKind.RECV: NodeType.COMM_RECV,
    OpKind.TRANSFER: NodeType.COMP,  # one-sided; a send without its receive would never end
    OpKind.COPY: NodeType.COMP,  # a MEM node would go to ASTRA-sim's remote memory
    OpKind.WAIT: NodeType.COMP,
    OpKind.DATA: NodeType.COMP,
    OpKind.MARKER: NodeType.METADATA,
    OpKind.CORE_WAIT: NodeType.COMP,
}

OP_KINDS = {
    NodeType.INVALID: OpKind.MARKER,
    NodeType.METADATA: OpKind.MARKER,
    NodeType.MEM_LOAD: OpKind.COPY,
    NodeType.MEM_STORE: OpKind.COPY,
    NodeType.COMP: OpKind.COMPUTE,
    NodeType.COMM_SEND: OpKind.SEND,
    NodeType.COMM_RECV: OpKind.RECV,
    NodeType.COMM_COLL: OpKind.COLLECTIVE,
    NodeType.STORAGE: OpKind.DATA,
    NodeType.BATCH: OpKind.DATA,
    NodeType.CHECKPOINT: OpKind.HOST,
}
"""What a node of another program's trace is, where no `paceline.kind` says it."""

COMMUNICATION = frozenset({OpKind.COLLECTIVE, OpKind.SEND, OpKind.RECV})


Index = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class LaneEntry(msgspec.Struct, frozen=True):
    """One lane in `graph.json`, numbers as in the kinds."""

    rank: Index
    device: Index
    kind: Index
    discipline: Index
    name: str


class DeviceEntry(msgspec.Struct, frozen=True):
    name: str
    host: int
    kind: Index
    memory_bytes: int


class GroupEntry(msgspec.Struct, frozen=True):
    name: str
    ranks: tuple[Index, ...]
    axis: str


class Sidecar(msgspec.Struct, frozen=True):
    """`graph.json`: what belongs to all ranks and has no place in Chakra."""

    format: str
    schema: int
    lanes: list[LaneEntry]
    devices: list[DeviceEntry]
    groups: list[GroupEntry]
    meta: dict[str, Any]
    facts: dict[str, Any] = {}
