"""One graph = one folder: Parquet columns and `header.json`, written whole or not at all.

    save_graph(graph, "runs/a/graph")
    graph = load_graph("runs/a")          # the graph's own folder, or a run that holds one

The header names the schema version and the SHA-256 of every table and of itself, so a folder
that is truncated, altered, foreign, or from a newer Paceline is refused with a clear error.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.errors import FileError, GraphError
from paceline.graph.atomic import atomic_folder, write_durably
from paceline.graph.columns import OPTIONAL, TABLES, Layout, decode, encode, to_graph, to_tables
from paceline.graph.earlier_schemas import (
    FIRST_TABLES,
    SECOND_TABLES,
    of_first_schema,
    of_second_schema,
)
from paceline.graph.graph import Graph
from paceline.graph.law import check_columns
from paceline.graph.plain_facts import plain_facts, typed_facts

FORMAT = "paceline graph"
SCHEMA = 3
HEADER = "header.json"
KEPT = "graph"
"""The folder in a run's folder that keeps its graph."""
EXTRA = "extra"
"""The table of columns that are kept beside the graph's own, one value an op: a timeline's."""
_LAYOUTS = {1: FIRST_TABLES, 2: SECOND_TABLES, SCHEMA: TABLES}


class Table(msgspec.Struct, frozen=True):
    """What the header says of one Parquet file."""

    rows: int
    size_bytes: int
    sha256: str


class Header(msgspec.Struct, frozen=True):
    """`header.json`, less its own checksum."""

    format: str
    schema: int
    tables: dict[str, Table]
    extra: dict[str, str]  # column -> NumPy type
    meta: dict[str, Any]
    facts: dict[str, Any] = {}


def save_graph(
    graph: Graph, path: str | Path, extra: Mapping[str, NDArray[Any]] | None = None
) -> Path:
    """Write a graph, and columns aligned with its ops (`extra`), as the folder `path`.

    An older graph there is replaced; any other folder is left alone and refused.
    """
    path = Path(path)
    layout = _extra_layout(graph, extra or {})
    tables = to_tables(graph)
    if extra:
        tables[EXTRA] = extra
    meta = _plain_meta(graph, path)
    with atomic_folder(path, is_graph_folder) as folder:

        def kept(name: str) -> Table:
            columns = tables[name]
            data = _encoded(columns, layout if name == EXTRA else TABLES[name], name, path)
            write_durably(folder / f"{name}.parquet", data)
            rows = len(next(iter(columns.values())))
            return Table(rows, len(data), hashlib.sha256(data).hexdigest())

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            entries = dict(zip(tables, pool.map(kept, tables)))
        header = Header(FORMAT, SCHEMA, entries, dict(layout), meta, plain_facts(graph.facts))
        write_durably(folder / HEADER, _header_text(header).encode())
    return path


def load_graph(path: str | Path) -> Graph:
    """The graph kept in `path`: a graph's folder, or a run's folder which holds `graph/`."""
    folder = find_graph(path)
    header = _read_header(folder)
    layouts = {n: one for n, one in _LAYOUTS[header.schema].items() if n in header.tables}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        read = pool.map(lambda n: _read_table(folder, n, header.tables[n], layouts[n]), layouts)
        tables = dict(zip(layouts, read))
    if header.schema == 1:
        return checked(of_first_schema(tables, header.meta), folder)
    made = of_second_schema if header.schema == 2 else to_graph
    return checked(made(tables, typed_facts(header.facts, folder), header.meta), folder)


def checked(graph: Graph, source: Path) -> Graph:
    """The graph, if its columns fit together; else an error that names the file."""
    try:
        check_columns(graph)
    except GraphError as error:
        raise FileError(f"{source} holds no whole graph: {error}") from error
    return graph


def load_extra(path: str | Path) -> dict[str, NDArray[Any]]:
    """The columns that were kept beside the graph's own; none where none were."""
    folder = find_graph(path)
    header = _read_header(folder)
    if EXTRA not in header.tables:
        return {}
    return _read_table(folder, EXTRA, header.tables[EXTRA], _known_types(header.extra, folder))


def find_graph(path: str | Path) -> Path:
    """The folder with the graph's header: `path` itself or `path/graph`."""
    path = Path(path)
    for folder in (path, path / KEPT):
        if (folder / HEADER).is_file():
            return folder
    if not path.exists():
        raise FileError(f"{path} does not exist. Give the folder of a saved graph or of a run.")
    raise FileError(
        f"{path} is no saved graph: neither it nor {path.name}/graph is a folder with {HEADER}. "
        "Give a folder written by save_graph, or convert a trace with `paceline convert`."
    )


def is_graph_folder(path: Path) -> bool:
    """True for a folder with a header and nothing in it that is not a graph's."""
    ours = {HEADER, *(f"{name}.parquet" for name in (*TABLES, EXTRA))}
    found = {p.name for p in path.iterdir()}
    return HEADER in found and found <= ours


def _extra_layout(graph: Graph, extra: Mapping[str, NDArray[Any]]) -> Layout:
    for name, values in extra.items():
        if values.shape != (len(graph),) or values.dtype.kind not in "biuf":
            raise FileError(
                f"column {name!r} is {values.dtype} of shape {values.shape}; "
                f"columns kept beside a graph are numbers, one for each of its {len(graph)} ops"
            )
    return {name: str(values.dtype) for name, values in extra.items()}


def _plain_meta(graph: Graph, path: Path) -> dict[str, Any]:
    """The graph's facts as they will be read back; an error where JSON cannot hold them."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(graph.meta), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise FileError(
            f"cannot write {path}: the graph's meta does not fit into JSON ({error}). "
            "Use text, finite numbers, lists and dictionaries."
        ) from error
    return plain


def _encoded(columns: Mapping[str, Any], layout: Layout, table: str, path: Path) -> memoryview:
    try:
        return encode(columns, layout)
    except UnicodeEncodeError as error:
        raise FileError(
            f"cannot write {path}: a text in table {table} is no valid Unicode "
            f"({error.object!r}). Rename it."
        ) from error


def _header_text(header: Header) -> str:
    body = msgspec.to_builtins(header)
    return json.dumps({**body, "sha256": _checksum(body)}, indent=1) + "\n"


def _checksum(body: Mapping[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _read_header(folder: Path) -> Header:
    path = folder / HEADER
    raw = _read_json(path)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise FileError(f"{path} is not the header of a graph. Give a folder made by save_graph.")
    schema = raw.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise FileError(
            f"{path} has schema {schema}, this Paceline reads up to {SCHEMA}. Upgrade Paceline."
        )
    if raw.pop("sha256", None) != _checksum(raw):
        raise FileError(f"{path} was altered or damaged: its checksum is wrong. Save it anew.")
    return _typed_header(raw, path)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is truncated or no JSON ({error}). Save it anew.") from error


def _typed_header(raw: dict[str, Any], path: Path) -> Header:
    try:
        header = msgspec.convert(raw, Header)
    except msgspec.ValidationError as error:
        raise FileError(f"{path} is no valid header: {error}. Save it anew.") from error
    known = _LAYOUTS.get(header.schema, {})
    missing = set(known) - OPTIONAL - set(header.tables)
    if not known or missing or len(OPTIONAL & set(header.tables)) == 1:
        raise FileError(
            f"{path} of schema {header.schema} lists the tables {sorted(header.tables)}; "
            f"schema {SCHEMA} needs {sorted(TABLES)}. Save it anew."
        )
    return header


def _read_table(folder: Path, name: str, entry: Table, layout: Layout) -> dict[str, Any]:
    path = folder / f"{name}.parquet"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}. Save it anew.") from error
    if len(data) != entry.size_bytes:
        raise FileError(
            f"{path} has {len(data)} bytes where its header says {entry.size_bytes}: "
            "it is truncated or from another graph. Save it anew."
        )
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise FileError(f"{path} was altered or damaged: its checksum is wrong. Save it anew.")
    return decode(data, layout, str(path))


def _known_types(extra: dict[str, str], folder: Path) -> Layout:
    for name, kind in extra.items():
        try:
            known = np.dtype(kind).kind in "biuf"
        except TypeError:
            known = False
        if not known:
            raise FileError(f"{folder / HEADER} gives column {name!r} the unknown type {kind!r}")
    return extra
