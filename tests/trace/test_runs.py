"""One way to open a run: what was recorded is shown, and never an older graph."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.cli import main
from paceline.errors import TraceError
from paceline.graph import save_graph
from paceline.graph.chakra import write_chakra
from paceline.graph.files import KEPT
from paceline.graph.synthetic import Ring, ring
from paceline.record import sidecar
from paceline.record.job import RecordedJob, keep_job
from paceline.record.sidecar import Backward, End, Mode, RecordedGroup, RecordedHost, Step
from paceline.trace.identity import MADE_OF, identity_of, keep_identity
from paceline.trace.runs import open_run

US = 1000


def record(document: Callable[..., Any], run: Path, op: str) -> Path:
    """A recorded step of one op."""
    run.mkdir(exist_ok=True)
    document().op(op, 10, 50).save(run / sidecar.trace_name(0))
    told: list[sidecar.Record] = [
        RecordedHost(rank=0, world_size=1, main_thread=1),
        RecordedGroup(name="0", ranks=[0]),
        Step(index=7, begin_ns=0, end_ns=100 * US, mode=Mode.RECORDED, update_begin_ns=90 * US),
        Backward(thread=1, begin_ns=60 * US, end_ns=80 * US),
        End(reason="complete", at_ns=200 * US, steps=8, recorded=1),
    ]
    lines = b"".join(sidecar.encode(record) for record in told)
    (run / sidecar.facts_name(0)).write_bytes(lines)
    return run


def test_a_recording_made_over_an_older_one_is_the_one_that_is_opened(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    run = record(document, tmp_path / "run", "aten::mm")
    assert "aten::mm" in open_run(run).names
    record(document, run, "aten::convolution")
    assert "aten::convolution" in open_run(run).names
    assert "aten::mm" not in open_run(run).names


def test_a_graph_is_kept_as_long_as_recording_and_code_are_the_same(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    run = record(document, tmp_path / "run", "aten::mm")
    open_run(run)
    kept = (run / KEPT).stat().st_ino
    open_run(run)
    assert (run / KEPT).stat().st_ino == kept


def test_a_graph_that_other_code_built_is_built_anew(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    run = record(document, tmp_path / "run", "aten::mm")
    open_run(run)
    made_of = (run / MADE_OF).read_bytes()
    keep_identity(msgspec.structs.replace(identity_of(run), code="another version"), run)
    kept = (run / KEPT).stat().st_ino
    open_run(run)
    assert (run / KEPT).stat().st_ino != kept
    assert (run / MADE_OF).read_bytes() == made_of


def test_a_graph_that_was_put_in_the_place_of_the_recordings_is_not_taken_for_it(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    run = record(document, tmp_path / "run", "aten::mm")
    open_run(run)
    save_graph(ring(Ring(ranks=2, layers=1, tensors=1)), run / KEPT)
    assert "aten::mm" in open_run(run).names


def test_nothing_is_imagined_into_the_folder_of_a_recording(
    document: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record(document, tmp_path / "run", "aten::mm")
    assert main(["imagine", "-o", str(run), "--world-size", "2", "--", "train.py"]) == 1
    assert "holds a recording; give another folder" in capsys.readouterr().err


def test_a_graph_outlives_the_traces_it_was_built_from(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    run = record(document, tmp_path / "run", "aten::mm")
    built = open_run(run)
    (run / sidecar.trace_name(0)).unlink()
    assert open_run(run).names == built.names


def test_a_recording_in_which_no_optimizer_stepped_says_so(tmp_path: Path) -> None:
    job = RecordedJob(job="a", command=["true"], steps=3, started_ns=0)
    keep_job(job, tmp_path)
    with pytest.raises(TraceError, match="holds no recording"):
        open_run(tmp_path)


def test_folders_of_graphs_and_chakra_traces_are_opened_too(tmp_path: Path) -> None:
    made = ring(Ring(ranks=2, layers=2, tensors=1))
    graph, chakra = save_graph(made, tmp_path / "g"), write_chakra(made, tmp_path / "c")
    assert len(open_run(graph)) == len(made)
    assert len(open_run(str(chakra)).ranks) == 2


@pytest.mark.parametrize("command", [["show"], ["predict"], ["place", "--devices", "2"]])
def test_commands_take_a_run_that_was_just_recorded(
    command: list[str], document: Callable[..., Any], tmp_path: Path
) -> None:
    run = record(document, tmp_path / "run", "aten::mm")
    assert main([*command, str(run)]) == 0


def test_a_run_that_was_just_recorded_is_converted(
    document: Callable[..., Any], tmp_path: Path
) -> None:
    run = record(document, tmp_path / "run", "aten::mm")
    assert main(["convert", str(run), str(tmp_path / "timeline.json")]) == 0
    assert "aten::mm" in (tmp_path / "timeline.json").read_text()
