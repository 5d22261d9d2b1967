"""`packed`: columns and facts as the bytes that a page carries; `pack`: those of a graph.

MAGIC, then one zlib stream, whose checksum tells whether somebody edited it, of: the length of a
header in four bytes, the header (JSON: `facts`, and each column's name, type, length and coding),
and every column's bytes.
web/src/engine/container.js reads it.
"""

import json
import os
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline.graph import Collective, DeviceKind, DType, Graph, LaneKind, OpKind, Phase, Spread
from paceline.graph.graph import Int64
from paceline.report.page.coding import CodedColumn, coded
from paceline.report.page.deflate import deflated

MAGIC: Final = b"plpack 2"
_LEVEL: Final = 5  # the next one takes twice as long for a twentieth less


@dataclass(frozen=True, eq=False)
class PageData:
    """Columns and facts that a page carries, by the names under which it reads them."""

    columns: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)


def pack(graph: Graph, *parts: PageData) -> bytes:
    """The graph's columns and texts, and other parts beside them."""
    every = (PageData(graph_columns(graph), graph_facts(graph)), *parts)
    columns = {name: column for part in every for name, column in part.columns.items()}
    return packed(columns, {name: fact for part in every for name, fact in part.facts.items()})


def packed(columns: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> bytes:
    """Any columns and facts."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(coded, columns, columns.values()))
    return container(made, facts)


def container(made: Sequence[CodedColumn], facts: Mapping[str, Any]) -> bytes:
    """Columns that are coded already."""
    described = {"facts": facts, "columns": [one.described() for one in made]}
    header = json.dumps(described, allow_nan=False, separators=(",", ":")).encode()
    parts = (struct.pack("<I", len(header)), header, *(one.data for one in made))
    return MAGIC + deflated(b"".join(parts), _LEVEL)


def graph_columns(graph: Graph) -> dict[str, NDArray[Any]]:
    """By the names that the page reads them under. A column that its lane tells (rank) is left
    out."""
    ops, deps, lanes, memory = graph.ops, graph.deps, graph.lanes, graph.memory
    of_ops = {name: column for name, column in vars(ops).items() if name != "rank"}
    found: dict[str, NDArray[Any]] = {
        **of_ops,
        "dep_ptr": deps.ptr,
        "dep_src": deps.src,
        "dep_kind": deps.kind,
        "dep_inferred": deps.inferred,
        "discipline": lanes.discipline,
        "drain_op": graph.drains.op,
        "drain_lane": graph.drains.lane,
        **{f"memory_{name}": column for name, column in vars(memory).items()},
    }
    if graph.spread is not None:
        found |= _samples(ops.dur_ns, graph.spread)
    return found


def _samples(dur_ns: Int64, spread: Spread) -> dict[str, NDArray[Any]]:
    """Samples as what each is more than its op's duration: smaller numbers than the samples are."""
    owner = np.repeat(np.arange(len(dur_ns)), np.diff(spread.ptr))
    return {"sample_ptr": spread.ptr, "sample_over_ns": spread.samples_ns - dur_ns[owner]}


def graph_facts(graph: Graph) -> dict[str, Any]:
    """Texts, and what is not a column of ops."""
    lanes = graph.lanes
    rows = zip(lanes.rank.tolist(), lanes.device.tolist(), lanes.kind.tolist(), lanes.name)
    return {
        "names": list(graph.names),
        "lanes": [
            {"rank": rank, "device": device, "kind": LaneKind(kind).name.lower(), "name": name}
            for rank, device, kind, name in rows
        ],
        "devices": [
            {
                "name": one.name,
                "host": one.host,
                "kind": one.kind.name.lower(),
                "memory_bytes": one.memory_bytes,
            }
            for one in graph.devices
        ],
        "groups": [
            {"name": one.name, "ranks": list(one.ranks), "axis": one.axis.name.lower()}
            for one in graph.groups
        ],
        "words": {name: [word.name.lower() for word in words] for name, words in _WORDS.items()},
    }


_WORDS: Final = {"kind": OpKind, "phase": Phase, "collective": Collective, "dtype": DType,
                 "device": DeviceKind}  # fmt: skip
"""What the numbers of a column of words stand for, in their order."""
