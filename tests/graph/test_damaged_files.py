"""Graph folders that were damaged, edited or written by others: refused with the reason."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import FileError, PacelineError
from paceline.graph import Graph, load_extra, load_graph, save_graph
from paceline.graph.columns import TABLES, decode, encode
from paceline.graph.earlier_schemas import SECOND_TABLES, facts_of_notes
from paceline.graph.facts import Facts

Same = Callable[[Any, Any], bool]
SETTINGS = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda g: shutil.rmtree(g), "does not exist"),
        (lambda g: (g / "header.json").unlink(), "is no saved graph"),
        (lambda g: (g / "ops.parquet").unlink(), "cannot read .*ops.parquet"),
        (lambda g: os.truncate(g / "header.json", 100), "header.json is truncated"),
        (lambda g: os.truncate(g / "ops.parquet", 100), "ops.parquet has 100 bytes"),
        (lambda g: (g / "header.json").write_text("[" * 100_000), "header.json is truncated"),
        (lambda g: (g / "header.json").write_text('{"a": 1}'), "not the header of a graph"),
        (lambda g: rewrite(g, schema=4), "schema 4, this Paceline reads up to 3. Upgrade"),
        (lambda g: rewrite(g, schema="x"), "is no valid header"),
        (lambda g: rewrite(g, tables={}), "lists the tables"),
        (lambda g: edit_header(g, "drawn", "faked"), "checksum is wrong"),
        (lambda g: flip(g / "deps.parquet"), "deps.parquet was altered or damaged"),
        (lambda g: swap(g, "deps.parquet", b"PAR1 no more"), "no readable Parquet file"),
        (lambda g: swap(g, "deps.parquet", (g / "names.parquet").read_bytes()), "has columns"),
    ],
)
def test_a_damaged_folder_is_refused_with_its_reason(
    tmp_path: Path, damage: Callable[[Path], Any], message: str, everything: Graph
) -> None:
    path = save_graph(everything, tmp_path / "g")
    damage(path)
    with pytest.raises(FileError, match=message):
        load_graph(path)


def rewrite(folder: Path, **changes: Any) -> None:
    """A header with other contents and a checksum that fits them."""
    header = json.loads((folder / "header.json").read_text())
    del header["sha256"]
    header |= changes
    canonical = json.dumps(header, sort_keys=True, separators=(",", ":"))
    header["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    (folder / "header.json").write_text(json.dumps(header))


def edit_header(folder: Path, old: str, new: str) -> None:
    header = folder / "header.json"
    header.write_text(header.read_text().replace(old, new))


def flip(path: Path, bit: int = 8 * 64) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    path.write_bytes(data)


def swap(folder: Path, name: str, data: bytes) -> None:
    """Another file in a table's place, with a header that vouches for it."""
    (folder / name).write_bytes(data)
    tables = json.loads((folder / "header.json").read_text())["tables"]
    entry = tables[name.removesuffix(".parquet")]
    entry |= {"size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    rewrite(folder, tables=tables)


@SETTINGS
@given(st.data())
def test_a_flipped_bit_never_loads(
    ram: Path, everything: Graph, same: Same, data: st.DataObject
) -> None:
    path = save_graph(everything, ram / "g")
    file = data.draw(st.sampled_from(sorted(path.iterdir())))
    flip(file, data.draw(st.integers(0, 8 * file.stat().st_size - 1)))
    try:
        loaded = load_graph(path)
    except PacelineError:
        return
    # Only white space between the header's words may change unnoticed.
    assert file.name == "header.json"
    assert same(loaded, everything)


@SETTINGS
@given(st.data())
def test_damage_that_the_header_vouches_for_still_ends_in_a_clear_error(
    ram: Path, everything: Graph, data: st.DataObject
) -> None:
    path = save_graph(everything, ram / "g")
    file = data.draw(st.sampled_from(sorted(path.glob("*.parquet"))))
    raw = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    swap(path, file.name, bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    load_or_refuse(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@SETTINGS
@given(
    st.dictionaries(st.sampled_from(["schema", "tables", "extra", "meta", "format"]), JSON),
    st.booleans(),
)
def test_a_header_of_random_json_ends_in_a_clear_error(
    ram: Path, everything: Graph, changes: dict[str, Any], vouched: bool
) -> None:
    path = save_graph(everything, ram / "g")
    if vouched:
        rewrite(path, **changes)
    else:
        (path / "header.json").write_text(json.dumps(changes))
    load_or_refuse(path)


def load_or_refuse(path: Path) -> None:
    try:
        load_graph(path)
        load_extra(path)
    except PacelineError:
        return


def test_an_index_that_points_nowhere_is_named(tmp_path: Path, everything: Graph) -> None:
    graph = everything
    lane = graph.ops.lane.copy()
    lane[4] = 99
    save_graph(replace(graph, ops=replace(graph.ops, lane=lane)), tmp_path / "g")
    with pytest.raises(PacelineError, match=r"g holds no whole graph: op 4 .* has lane 99;"):
        load_graph(tmp_path / "g")


def test_a_table_whose_declared_rows_disagree_is_refused_before_memory_is_set_aside() -> None:
    # Found by fuzzing: two rows in the footer, 116,880,504,446 in its only row group.
    damaged = Path(__file__).with_name("damaged_rows.parquet").read_bytes()
    for layout in TABLES.values():
        with pytest.raises(FileError, match="do not add up"):
            decode(damaged, layout, "damaged table")


def test_a_graph_of_the_second_schema_has_no_recorded_work(
    tmp_path: Path, everything: Graph
) -> None:
    graph = everything
    path = save_graph(graph, tmp_path / "g")
    ops = {name: getattr(graph.ops, name) for name in SECOND_TABLES["ops"]}
    data = encode(ops, SECOND_TABLES["ops"])
    swap(path, "ops.parquet", data)
    (path / "works.parquet").unlink()
    header = json.loads((path / "header.json").read_text())
    tables = {name: entry for name, entry in header["tables"].items() if name != "works"}
    rewrite(path, schema=2, tables=tables)
    found = load_graph(path)
    assert found.works == ()
    assert set(found.ops.work.tolist()) == {-1}
    assert found.ops.flops.tolist() == graph.ops.flops.tolist()


def test_a_graph_of_the_first_schema_without_notes_has_no_facts() -> None:
    assert facts_of_notes({}) == Facts()


@pytest.mark.parametrize("kind", ["U5", "nothing"])
def test_an_unknown_type_of_a_column_beside_the_graph_is_named(
    tmp_path: Path, kind: str, everything: Graph
) -> None:
    graph = everything
    path = save_graph(graph, tmp_path / "g", {"start_ns": np.arange(len(graph))})
    rewrite(path, extra={"start_ns": kind})
    with pytest.raises(FileError, match=f"gives column 'start_ns' the unknown type '{kind}'"):
        load_extra(path)
