"""Graph folders: what is saved is what is loaded, and nothing half-written is left behind."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import FileError
from paceline.graph import (
    Graph,
    GraphBuilder,
    OpColumns,
    OpKind,
    load_extra,
    load_graph,
    save_graph,
)
from paceline.graph.columns import TABLES

Same = Callable[[Any, Any], bool]
SETTINGS = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


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


def test_a_graph_with_everything_round_trips_exactly(
    tmp_path: Path, everything: Graph, same: Same
) -> None:
    assert same(load_graph(save_graph(everything, tmp_path / "g")), everything)


@SETTINGS
@given(graphs())
def test_any_graph_round_trips_exactly(ram: Path, same: Same, graph: Graph) -> None:
    assert same(load_graph(save_graph(graph, ram / "g")), graph)


def test_loaded_columns_are_frozen(tmp_path: Path, everything: Graph) -> None:
    graph = load_graph(save_graph(everything, tmp_path / "g"))
    with pytest.raises(ValueError, match="read-only"):
        graph.ops.dur_ns[0] = 1


def test_columns_kept_beside_the_graph_come_back(
    tmp_path: Path, everything: Graph, same: Same
) -> None:
    graph = everything
    extra = {"start_ns": np.arange(len(graph)), "share": np.full(len(graph), 0.5)}
    path = save_graph(graph, tmp_path / "g", extra)
    assert same(load_graph(path), graph)
    assert {k: v.tolist() for k, v in load_extra(path).items()} == {
        k: v.tolist() for k, v in extra.items()
    }
    assert load_extra(save_graph(graph, tmp_path / "g")) == {}


def test_columns_beside_the_graph_must_fit_it(tmp_path: Path, everything: Graph) -> None:
    with pytest.raises(FileError, match="one for each of its 6 ops"):
        save_graph(everything, tmp_path / "g", {"start_ns": np.arange(5)})
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_holds_a_graph_is_loaded_as_that_graph(
    tmp_path: Path, everything: Graph, same: Same
) -> None:
    graph = everything
    save_graph(graph, tmp_path / "run" / "graph")
    (tmp_path / "run" / "rank0.json").write_text("{}")
    assert same(load_graph(tmp_path / "run"), graph)


def test_an_older_graph_is_replaced_whole(tmp_path: Path, everything: Graph, same: Same) -> None:
    save_graph(everything, tmp_path / "g")
    empty = GraphBuilder().build()
    save_graph(empty, tmp_path / "g")
    assert same(load_graph(tmp_path / "g"), empty)
    assert [p.name for p in tmp_path.iterdir()] == ["g"]


def test_a_folder_of_other_things_is_never_overwritten(tmp_path: Path, everything: Graph) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileError, match="holds other things"):
        save_graph(everything, tmp_path)
    with pytest.raises(FileError, match="is no folder"):
        save_graph(everything, tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_meta_that_json_cannot_hold_is_refused(
    tmp_path: Path, value: Any, everything: Graph
) -> None:
    graph = replace(everything, meta={"loss": value})
    with pytest.raises(FileError, match="does not fit into JSON"):
        save_graph(graph, tmp_path / "g")
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_is_no_unicode_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    b = GraphBuilder()
    b.op("\ud800", b.lane())
    with pytest.raises(FileError, match="no valid Unicode"):
        save_graph(b.build(), tmp_path / "deep" / "g")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_a_clear_error(everything: Graph) -> None:
    with pytest.raises(FileError, match="cannot write /proc/g"):
        save_graph(everything, "/proc/g")


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


def test_writes_that_stop_midway_leave_nothing_and_the_older_graph_whole(
    ram: Path, everything: Graph, same: Same
) -> None:
    path = save_graph(everything, ram / "g")
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
    assert same(load_graph(path), everything)
    assert [p.name for p in ram.iterdir()] == ["g"]


@pytest.mark.net
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, everything: Graph, same: Same
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)])
    if mounted.returncode:
        pytest.skip("mount of a tmpfs is not allowed here")
    try:
        save_graph(everything, disk / "small")
        (disk / "ballast").write_bytes(bytes(disk_free(disk) - 8192))
        with pytest.raises(FileError, match="No space left on device"):
            save_graph(everything, disk / "g")
        assert sorted(p.name for p in disk.iterdir()) == ["ballast", "small"]
        assert same(load_graph(disk / "small"), everything)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def disk_free(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def test_a_process_that_ends_just_after_it_read_a_graph_ends_well(tmp_path: Path) -> None:
    """Threads of Arrow's data sets hold the bytes still as the interpreter goes, and abort it."""
    b = GraphBuilder()
    b.op("alone", b.lane(0, "0"), 1)
    save_graph(b.build(), tmp_path / "g")
    code = (
        "import sys; from paceline.graph import load_graph; load_graph(sys.argv[1])\n"
        "sys.exit('pyarrow.dataset' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "g")], check=True)
