"""What depends on what: the graph of all ranks, its words, its builder."""

from paceline.graph.builder import GraphBuilder
from paceline.graph.core_waits import without_core_waits
from paceline.graph.edits import Overlay
from paceline.graph.facts import Facts, LayerMemory, Parameter, RankMemory, RecordedGpu
from paceline.graph.files import load_extra, load_graph, save_graph
from paceline.graph.folding import FoldedGraph, fold
from paceline.graph.graph import (
    Dependencies,
    Device,
    Drains,
    Graph,
    Group,
    Lanes,
    MemoryEvents,
    Op,
    OpColumns,
    Spread,
)
from paceline.graph.kinds import (
    COMMUNICATION,
    NONE,
    UNPRICED,
    WORK,
    Axis,
    Basis,
    Collective,
    DepKind,
    DeviceKind,
    Discipline,
    DType,
    LaneKind,
    MemoryCategory,
    OpKind,
    Phase,
    Role,
)
from paceline.graph.law import check
from paceline.graph.select import scaling, select

__all__ = [
    "COMMUNICATION",
    "NONE",
    "UNPRICED",
    "WORK",
    "Axis",
    "Basis",
    "Collective",
    "DType",
    "DepKind",
    "Dependencies",
    "Device",
    "DeviceKind",
    "Discipline",
    "Drains",
    "Facts",
    "FoldedGraph",
    "Graph",
    "GraphBuilder",
    "Group",
    "LaneKind",
    "Lanes",
    "LayerMemory",
    "MemoryCategory",
    "MemoryEvents",
    "Op",
    "OpColumns",
    "OpKind",
    "Overlay",
    "Parameter",
    "Phase",
    "RankMemory",
    "RecordedGpu",
    "Role",
    "Spread",
    "check",
    "fold",
    "load_extra",
    "load_graph",
    "save_graph",
    "scaling",
    "select",
    "without_core_waits",
]
