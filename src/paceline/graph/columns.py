"""A graph as named tables of columns and back, and one table as the bytes of a Parquet file.

The tables below are the file format: a change of any of them is a new `SCHEMA` in `files`.
"""

from collections.abc import Mapping
from typing import Any

from paceline.errors import FileError
from paceline.graph.facts import Facts
from paceline.graph.graph import (
    Dependencies,
    Device,
    Drains,
    Graph,
    Group,
    Lanes,
    MemoryEvents,
    OpColumns,
    Spread,
)
from paceline.graph.in_arrow import arrow_type, to_arrow
from paceline.graph.in_parts import in_parts
from paceline.graph.kinds import Axis, DeviceKind
from paceline.graph.work.columns import RECORDED, recorded_columns, recorded_of

Columns = Mapping[str, Any]  # name -> array, or sequence of text or of lists; equally long
Layout = Mapping[
    str, str
]  # name -> NumPy type, "text", "ranks" (lists of int32), "sizes" (of int64)

TABLES: Mapping[str, Layout] = {
    "ops": {
        "rank": "int32",
        "lane": "int32",
        "kind": "uint8",
        "phase": "uint8",
        "dur_ns": "int64",
        "size_bytes": "int64",
        "flops": "int64",
        "group": "int32",
        "instance": "int32",
        "collective": "uint8",
        "dtype": "uint8",
        "name": "int32",
        "layer": "int32",
        "tensor": "int32",
        "priority": "int32",
        "step": "int32",
        "basis": "uint8",
        "scale_ppb": "int64",
        "work": "int32",
    },
    "deps": {"src": "int32", "kind": "uint8", "inferred": "bool"},
    "deps_ptr": {"ptr": "int64"},
    "lanes": {
        "rank": "int32",
        "device": "int32",
        "kind": "uint8",
        "discipline": "uint8",
        "name": "text",
    },
    "devices": {"name": "text", "host": "int64", "kind": "uint8", "memory_bytes": "int64"},
    "groups": {"name": "text", "ranks": "ranks", "axis": "text"},
    "names": {"text": "text"},
    "drains": {"op": "int32", "lane": "int32"},
    "memory": {
        "op": "int32",
        "device": "int32",
        "delta_bytes": "int64",
        "category": "uint8",
        "at_end": "bool",
    },
    "works": RECORDED,
    "spread": {"samples_ns": "int64"},
    "spread_ptr": {"ptr": "int64"},
}
OPTIONAL = frozenset({"spread", "spread_ptr"})
"""Absent where no op has samples."""


def to_tables(graph: Graph) -> dict[str, Columns]:
    """Every table of the graph, columns in the order of `TABLES`."""
    tables: dict[str, Columns] = {
        "ops": vars(graph.ops),
        "deps": vars(graph.deps),
        "deps_ptr": {"ptr": graph.deps.ptr},
        "lanes": vars(graph.lanes),
        "devices": _rows(graph.devices, "devices"),
        "groups": _rows(graph.groups, "groups"),
        "names": {"text": graph.names},
        "drains": vars(graph.drains),
        "memory": vars(graph.memory),
        "works": recorded_columns(graph.works),
    }
    if graph.spread is not None:
        tables["spread"] = {"samples_ns": graph.spread.samples_ns}
        tables["spread_ptr"] = {"ptr": graph.spread.ptr}
    return {name: {c: table[c] for c in TABLES[name]} for name, table in tables.items()}


def to_graph(tables: Mapping[str, Columns], facts: Facts, meta: Mapping[str, Any]) -> Graph:
    """The graph of `to_tables`."""
    spread = None
    if "spread" in tables:
        spread = Spread(tables["spread_ptr"]["ptr"], tables["spread"]["samples_ns"])
    return Graph(
        ops=OpColumns(**tables["ops"]),
        deps=Dependencies(ptr=tables["deps_ptr"]["ptr"], **tables["deps"]),
        lanes=Lanes(**{**tables["lanes"], "name": tuple(tables["lanes"]["name"])}),
        devices=_devices(tables["devices"]),
        groups=_groups(tables["groups"]),
        names=tuple(tables["names"]["text"]),
        drains=Drains(**tables["drains"]),
        memory=MemoryEvents(**tables["memory"]),
        works=recorded_of(tables["works"]),
        spread=spread,
        facts=facts,
        meta=meta,
    )


def encode(columns: Columns, layout: Layout) -> memoryview:
    """One table as the bytes of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = [to_arrow(columns[name], kind) for name, kind in layout.items()]
    sink = pa.BufferOutputStream()
    fields = [pa.field(n, each.type, nullable=False) for n, each in zip(layout, arrays)]
    whole = pa.table(arrays, schema=pa.schema(fields))
    pq.write_table(whole, sink, compression="zstd", use_dictionary=False, write_statistics=False)
    return memoryview(sink.getvalue())


def decode(data: bytes, layout: Layout, source: str) -> dict[str, Any]:
    """The columns of a Parquet file, which must be exactly those of `layout`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            _check_declared_rows(file.metadata)
            expected = [(name, arrow_type(kind)) for name, kind in layout.items()]
            found = list(zip(file.schema_arrow.names, file.schema_arrow.types))
            if found != expected:
                raise FileError(f"{source} has columns {found}, expected {expected}. Save it anew.")
            return in_parts(file, layout, source)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise FileError(f"{source} is no readable Parquet file ({error}). Save it anew.") from error


def _check_declared_rows(metadata: Any) -> None:
    """Rows declared in two places must agree before memory is set aside for them.

    Only the groups' counts are asked: pyarrow aborts the process on some damaged column facts.
    """
    declared = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    if sum(declared) != metadata.num_rows:
        raise ValueError("its row groups do not add up to its rows")


def _rows(items: tuple[Device, ...] | tuple[Group, ...], table: str) -> Columns:
    return {name: [_plain(getattr(item, name)) for item in items] for name in TABLES[table]}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Axis) else value


def _devices(table: Columns) -> tuple[Device, ...]:
    rows = zip(table["name"], table["host"], table["kind"], table["memory_bytes"])
    try:
        return tuple(Device(n, int(h), DeviceKind(k), int(m)) for n, h, k, m in rows)
    except ValueError as error:
        raise FileError(f"a device of the graph is of no known kind: {error}") from error


def _groups(table: Columns) -> tuple[Group, ...]:
    rows = zip(table["name"], table["ranks"], table["axis"])
    try:
        return tuple(Group(name, tuple(ranks), Axis(axis)) for name, ranks, axis in rows)
    except ValueError as error:
        raise FileError(f"a group of the graph is along no known axis: {error}") from error
