"""Graph folders: what is saved is what is loaded, and nothing half-written is left behind."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import FileError, PacelineError
from paceline.graph import (
    Axis,
    Collective,
    DepKind,
    DeviceKind,
    Discipline,
    DType,
    Graph,
    GraphBuilder,
    LaneKind,
    MemoryCategory,
    OpColumns,
    OpKind,
    Phase,
    load_extra,
    load_graph,
    save_graph,
)
from paceline.graph.columns import TABLES, decode, encode
from paceline.graph.earlier_schemas import SECOND_TABLES, facts_of_notes
from paceline.graph.facts import Facts
from paceline.graph.work import Attention, Launch, Recorded, attention

SETTINGS = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def everything() -> Graph:
    """Two ranks, and something in every table."""
    b = GraphBuilder(meta={"source": "drawn", "world_size": 2, "steps": [1, 2], "none": None})
    world = b.group("world", (0, 1), axis=Axis.DATA)
    b.group("alone", ())
    joined = b.instance()
    for rank in (0, 1):
        gpu = b.device(f"gpu {rank}", host=rank, kind=DeviceKind.GPU, memory_bytes=80 << 30)
        stream = b.lane(rank, "stream 7", device=gpu, kind=LaneKind.STREAM)
        nic = b.lane(rank, "nic", kind=LaneKind.LINK_OUT, discipline=Discipline.PRIORITY)
        load = b.op("load", stream, 2**31 + 5, kind=OpKind.DATA, phase=Phase.DATA, step=3)
        seen = attention(Attention(2, 8, 2, 9, 9, 64, 64, causal=True), DType.BFLOAT16)
        told = Recorded("aten::sdpa", seen, Launch(132, 128, 255, 1024), inferred=rank == 1)
        matmul = b.op("矩阵 mul", stream, 2**40, after=[load], layer="fc1", flops=2**62, work=told)
        b.op(
            "all_reduce",
            nic,
            7,
            after=[matmul],
            dep=DepKind.GRADIENT,
            kind=OpKind.COLLECTIVE,
            collective=Collective.ALL_REDUCE,
            dtype=DType.FLOAT16,
            tensor="fc1.weight",
            size_bytes=2**33,
            group=world,
            instance=joined,
            priority=-4,
        )
        b.link(load, matmul + 1, DepKind.ORDER, inferred=True)
        b.drain(load, nic)
        b.allocate(matmul, 2**35, MemoryCategory.ACTIVATIONS)
        b.allocate(matmul + 1, -(2**35), MemoryCategory.ACTIVATIONS, at_end=True)
        b.samples(matmul, [2**40, 2**40 + 1])
    return b.build()


def same(one: Any, other: Any) -> bool:
    """Equal to the last byte and type."""
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and np.array_equal(one, other))
    if is_dataclass(one) and type(one) is type(other):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    b = GraphBuilder(meta=draw(st.dictionaries(st.text(), st.integers() | st.text(), max_size=3)))
    words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    lanes = [b.lane(rank, draw(words)) for rank in range(draw(st.integers(1, 3)))]
    for op in range(draw(st.integers(0, 12))):
        b.op(
            draw(words),
            lane := draw(st.sampled_from(lanes)),
            draw(st.integers(-1, 2**63 - 1)),
            after=draw(st.sets(st.integers(0, op - 1), max_size=3)) if op else (),
            kind=draw(st.sampled_from(OpKind)),
            tensor=draw(words),
            size_bytes=draw(st.integers(0, 2**63 - 1)),
        )
        if draw(st.booleans()):
            b.allocate(op, draw(st.integers(-(2**63), 2**63 - 1)), at_end=draw(st.booleans()))
            b.samples(op, draw(st.lists(st.integers(0, 2**63 - 1), max_size=3)))
            for other in set(lanes) - {lane}:
                b.drain(op, other)
    return b.build()


def test_every_column_of_the_graph_has_its_place_in_the_file_format() -> None:
    assert set(TABLES["ops"]) == {f.name for f in fields(OpColumns)}
    assert {f.name for f in fields(Graph)} - {"ops", "meta", "facts"} <= set(TABLES)


def test_a_graph_with_everything_round_trips_exactly(tmp_path: Path) -> None:
    graph = everything()
    assert same(load_graph(save_graph(graph, tmp_path / "g")), graph)


@SETTINGS
@given(graphs())
def test_any_graph_round_trips_exactly(ram: Path, graph: Graph) -> None:
    assert same(load_graph(save_graph(graph, ram / "g")), graph)


def test_loaded_columns_are_frozen(tmp_path: Path) -> None:
    graph = load_graph(save_graph(everything(), tmp_path / "g"))
    with pytest.raises(ValueError, match="read-only"):
        graph.ops.dur_ns[0] = 1


def test_columns_kept_beside_the_graph_come_back(tmp_path: Path) -> None:
    graph = everything()
    extra = {"start_ns": np.arange(len(graph)), "share": np.full(len(graph), 0.5)}
    path = save_graph(graph, tmp_path / "g", extra)
    assert same(load_graph(path), graph)
    assert {k: v.tolist() for k, v in load_extra(path).items()} == {
        k: v.tolist() for k, v in extra.items()
    }
    assert load_extra(save_graph(graph, tmp_path / "g")) == {}


def test_columns_beside_the_graph_must_fit_it(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="one for each of its 6 ops"):
        save_graph(everything(), tmp_path / "g", {"start_ns": np.arange(5)})
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_holds_a_graph_is_loaded_as_that_graph(tmp_path: Path) -> None:
    graph = everything()
    save_graph(graph, tmp_path / "run" / "graph")
    (tmp_path / "run" / "rank0.json").write_text("{}")
    assert same(load_graph(tmp_path / "run"), graph)


def test_an_older_graph_is_replaced_whole(tmp_path: Path) -> None:
    save_graph(everything(), tmp_path / "g")
    empty = GraphBuilder().build()
    save_graph(empty, tmp_path / "g")
    assert same(load_graph(tmp_path / "g"), empty)
    assert [p.name for p in tmp_path.iterdir()] == ["g"]


def test_a_folder_of_other_things_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileError, match="holds other things"):
        save_graph(everything(), tmp_path)
    with pytest.raises(FileError, match="is no folder"):
        save_graph(everything(), tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


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
    tmp_path: Path, damage: Callable[[Path], Any], message: str
) -> None:
    path = save_graph(everything(), tmp_path / "g")
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
def test_a_flipped_bit_never_loads(ram: Path, data: st.DataObject) -> None:
    path = save_graph(everything(), ram / "g")
    file = data.draw(st.sampled_from(sorted(path.iterdir())))
    flip(file, data.draw(st.integers(0, 8 * file.stat().st_size - 1)))
    try:
        loaded = load_graph(path)
    except PacelineError:
        return
    # Only white space between the header's words may change unnoticed.
    assert file.name == "header.json"
    assert same(loaded, everything())


@SETTINGS
@given(st.data())
def test_damage_that_the_header_vouches_for_still_ends_in_a_clear_error(
    ram: Path, data: st.DataObject
) -> None:
    path = save_graph(everything(), ram / "g")
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
    ram: Path, changes: dict[str, Any], vouched: bool
) -> None:
    path = save_graph(everything(), ram / "g")
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


def test_an_index_that_points_nowhere_is_named(tmp_path: Path) -> None:
    graph = everything()
    lane = graph.ops.lane.copy()
    lane[4] = 99
    save_graph(replace(graph, ops=replace(graph.ops, lane=lane)), tmp_path / "g")
    with pytest.raises(PacelineError, match=r"g holds no whole graph: op 4 .* has lane 99;"):
        load_graph(tmp_path / "g")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_meta_that_json_cannot_hold_is_refused(tmp_path: Path, value: Any) -> None:
    graph = replace(everything(), meta={"loss": value})
    with pytest.raises(FileError, match="does not fit into JSON"):
        save_graph(graph, tmp_path / "g")
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_is_no_unicode_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    b = GraphBuilder()
    b.op("\ud800", b.lane())
    with pytest.raises(FileError, match="no valid Unicode"):
        save_graph(b.build(), tmp_path / "deep" / "g")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_a_clear_error() -> None:
    with pytest.raises(FileError, match="cannot write /proc/g"):
        save_graph(everything(), "/proc/g")


FULL_DISK = """
import resource, sys
from paceline.errors import FileError
from paceline.graph import load_graph, save_graph
from paceline.graph.chakra import write_chakra
from paceline.replay import replay
from paceline.report import write_perfetto
graph = load_graph(sys.argv[1])
timeline = replay(graph)
writers = {
    "graph": save_graph,
    "chakra": write_chakra,
    "t.json": lambda graph, path: write_perfetto(graph, timeline, path),
    "t.json.gz": lambda graph, path: write_perfetto(graph, timeline, path),
}
resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
for name, write in writers.items():
    try:
        write(graph, f"{sys.argv[2]}/new/{name}")
    except FileError as error:
        print(error)
try:
    save_graph(graph, sys.argv[1])
except FileError as error:
    print(error)
"""


def test_writes_that_stop_midway_leave_nothing_and_the_older_graph_whole(ram: Path) -> None:
    path = save_graph(everything(), ram / "g")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), str(ram)],
        capture_output=True,
        text=True,
        check=True,
    )
    targets = [ram / "new" / name for name in ("graph", "chakra", "t.json", "t.json.gz")]
    assert done.stdout.splitlines() == [
        f"cannot write {target}: File too large. Nothing was left behind. "
        "Choose a place that you may write to and that has room."
        for target in (*targets, path)
    ]
    assert same(load_graph(path), everything())
    assert [p.name for p in ram.iterdir()] == ["g"]


@pytest.mark.net
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)])
    if mounted.returncode:
        pytest.skip("mount of a tmpfs is not allowed here")
    try:
        save_graph(everything(), disk / "small")
        (disk / "ballast").write_bytes(bytes(disk_free(disk) - 8192))
        with pytest.raises(FileError, match="No space left on device"):
            save_graph(everything(), disk / "g")
        assert sorted(p.name for p in disk.iterdir()) == ["ballast", "small"]
        assert same(load_graph(disk / "small"), everything())
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def disk_free(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def test_a_table_whose_declared_rows_disagree_is_refused_before_memory_is_set_aside() -> None:
    # Found by fuzzing: two rows in the footer, 116,880,504,446 in its only row group.
    damaged = Path(__file__).with_name("damaged_rows.parquet").read_bytes()
    for layout in TABLES.values():
        with pytest.raises(FileError, match="do not add up"):
            decode(damaged, layout, "damaged table")


def test_a_graph_of_the_second_schema_has_no_recorded_work(tmp_path: Path) -> None:
    graph = everything()
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
def test_an_unknown_type_of_a_column_beside_the_graph_is_named(tmp_path: Path, kind: str) -> None:
    graph = everything()
    path = save_graph(graph, tmp_path / "g", {"start_ns": np.arange(len(graph))})
    rewrite(path, extra={"start_ns": kind})
    with pytest.raises(FileError, match=f"gives column 'start_ns' the unknown type '{kind}'"):
        load_extra(path)
