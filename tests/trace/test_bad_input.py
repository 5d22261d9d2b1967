"""What is wrong with the input is said, or noted; it never becomes a silently wrong graph."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import FileError, PacelineError, TraceError
from paceline.graph import Collective, Graph, check
from paceline.replay import replay
from paceline.trace.importing import RAW, Import, import_graph, import_traces

Make = Callable[..., Any]


def imported(*paths: Path, **how: Any) -> Graph:
    return check(import_graph(paths, Import(**how)))


def notes(graph: Graph) -> str:
    return "\n".join(graph.meta["notes"])


@pytest.fixture
def trace(document: Make, tmp_path: Path) -> Path:
    d = document().step(1, 0, 60).op("aten::mm", 0, 30).op("aten::add", 35, 10)
    return Path(d.save(tmp_path / "rank0.json.gz"))


def test_a_truncated_gzip_is_an_error_and_can_be_salvaged(trace: Path, document: Make) -> None:
    d = document()
    for number in range(3000):
        d.op(f"aten::op{number % 7}", 10 * number, 7, filler=str(number * 7919))
    whole = gzip.compress(d.text())
    trace.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match=r"truncated or damaged .* --salvage"):
        imported(trace)
    graph = imported(trace, salvage=True)
    assert 100 < len(graph) < 6000
    assert "truncated after" in notes(graph)


def test_json_that_stops_in_the_middle_is_an_error(trace: Path, document: Make) -> None:
    trace.write_bytes(document().op("aten::mm", 0, 30).op("aten::add", 35, 10).text()[:-90])
    with pytest.raises(TraceError, match="ends in the middle"):
        imported(trace)


def test_mended_events_are_noted(trace: Path, document: Make) -> None:
    text = document().op("aten::mm", 0, 30).op("aten::add", 35, 10).text()
    trace.write_bytes(text.replace(b"aten::mm", b'C:\\my "model"\\mm'))
    graph = imported(trace)
    assert "1 events of invalid JSON were mended" in notes(graph)
    assert any("model" in name for name in graph.names)


def ranks(document: Make, folder: Path, *given: int, world_size: int = 2) -> Path:
    for number, rank in enumerate(given):
        d = document(rank=rank, world_size=world_size).step(1, 0, 50).op("aten::mm", 0, 30)
        d.save(folder / f"file{number}.json")
    return folder


def test_a_missing_rank_is_noted(document: Make, tmp_path: Path) -> None:
    graph = imported(ranks(document, tmp_path, 0, 2, world_size=3))
    assert "ranks [1] of 3 were not given" in notes(graph)


def test_a_duplicate_rank_is_an_error_that_names_the_files(document: Make, tmp_path: Path) -> None:
    ranks(document, tmp_path, 1, 1)
    with pytest.raises(TraceError, match=r"rank 1 has 2 traces: .*file0.json, .*file1.json"):
        imported(tmp_path)
    assert imported(tmp_path, ranks=(0, 1)).ranks == (0, 1)


def test_ranks_of_jobs_of_different_size_are_refused(document: Make, tmp_path: Path) -> None:
    ranks(document, tmp_path, 0)
    document(rank=1, world_size=8).op("aten::mm", 0, 3).save(tmp_path / "other.json")
    with pytest.raises(TraceError, match="name different world sizes"):
        imported(tmp_path)


def test_ranks_recorded_at_different_times_are_refused(document: Make, tmp_path: Path) -> None:
    ranks(document, tmp_path, 0)
    late = document(rank=1, world_size=2).step(1, 9e8, 50).op("aten::mm", 9e8, 3)
    late.save(tmp_path / "other.json")
    with pytest.raises(TraceError, match="not ranks of one job at one time"):
        imported(tmp_path)


def test_ranks_that_run_different_collectives_are_refused(document: Make, tmp_path: Path) -> None:
    for rank, kind in enumerate(("allreduce", "broadcast")):
        d = document(rank=rank, world_size=2).step(1, 0, 90).op("aten::mm", 0, 3)
        told = {"Collective name": kind, "Process Group Name": "0", "Seq": 5, "dtype": "Float"}
        d.kernel("ncclDevKernel_AllReduce_Sum_f32", 10, 20, 1, **told)
        d.save(tmp_path / f"rank{rank}.json")
    with pytest.raises(TraceError, match=r"rank 0 runs all_reduce where rank 1 runs broadcast"):
        imported(tmp_path)


def test_a_trace_without_step_marks_is_one_step_and_says_so(document: Make, tmp_path: Path) -> None:
    graph = imported(document().op("aten::mm", 0, 3).save(tmp_path / "rank0.json"))
    assert set(graph.ops.step.tolist()) == {0}
    assert "no step marks" in notes(graph)


def test_a_trace_without_kernels_is_a_host_trace(document: Make, tmp_path: Path) -> None:
    graph = imported(document().step(1, 0, 9).op("aten::mm", 0, 3).save(tmp_path / "rank0.json"))
    assert [op.kind.name for op in graph if op.name == "aten::mm"] == ["COMPUTE"]


def test_kernels_without_correlation_ids_are_counted_and_kept_in_time(
    document: Make, tmp_path: Path
) -> None:
    d = document().step(1, 0, 90).op("aten::mm", 0, 30)
    d.event("kernel", "gemm", 40, 20, pid=0, tid=7, stream=7)
    graph = imported(d.save(tmp_path / "rank0.json"))
    assert "1 pieces of device work have no launch" in notes(graph)
    from paceline.replay import replay

    (gemm,) = [op.id for op in graph if op.name == "gemm"]
    assert replay(graph).start_ns[gemm] == 40_000


def test_a_rank_that_stopped_early_leaves_out_the_steps_it_lacks(
    document: Make, tmp_path: Path
) -> None:
    for rank, count in ((0, 4), (1, 2)):
        d = document(rank=rank, world_size=2)
        for number in range(count):
            d.step(number, 100 * number, 100).op("aten::mm", 100 * number, 30)
        d.save(tmp_path / f"rank{rank}.json")
    graph = imported(tmp_path)
    assert sorted(set(graph.ops.step.tolist())) == [0, 1]
    assert "steps [2, 3] were not recorded on every rank and are left out" in notes(graph)


@pytest.mark.parametrize("content", [b"", b"{}", b"hello", b"\x1f\x8b", b"[]", b"\x00" * 99])
def test_a_file_that_is_no_trace_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.json").write_bytes(content)
    with pytest.raises(PacelineError, match=r"odd\.json"):
        imported(tmp_path)


def test_a_trace_without_events_is_an_error(document: Make, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no events"):
        imported(document().save(tmp_path / "rank0.json"))


def test_other_files_beside_the_traces_are_left_out(
    document: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ranks(document, tmp_path, 0, world_size=1)
    (tmp_path / "readme.txt").write_text("notes about the run")
    assert len(imported(tmp_path)) > 0
    assert "readme.txt is no trace and is left out" in caplog.text


def test_what_was_given_is_kept_even_when_the_import_fails(document: Make, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    ranks(document, given, 1, 1)
    with pytest.raises(TraceError):
        import_traces([given], tmp_path / "run")
    kept = sorted(path.name for path in (tmp_path / "run" / RAW / "given").iterdir())
    assert kept == ["file0.json", "file1.json"]


def test_a_run_is_never_written_over(trace: Path, tmp_path: Path) -> None:
    import_traces([trace], tmp_path / "run")
    with pytest.raises(FileError, match="already holds files"):
        import_traces([trace], tmp_path / "run")


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="nowhere does not exist"):
        imported(tmp_path / "nowhere")


@pytest.mark.parametrize("field", ["pid", "tid", "ts", "dur"])
def test_a_number_that_no_column_holds_loses_its_event_with_a_note(
    trace: Path, document: Make, field: str
) -> None:
    d = document().op("aten::mm", 0, 30).op("aten::add", 35, 10)
    d.events.append({**d.events[0], field: int("7" * 67)})
    d.save(trace)
    graph = imported(trace)
    assert "1 events" in notes(graph)
    assert replay(graph).step_ns == 45_000


def test_collective_metadata_beyond_any_column_tells_nothing(trace: Path, document: Make) -> None:
    d = document().step(1, 0, 60).call("cudaLaunchKernel", 0, 5, correlation=1)
    told = {"Collective name": "allreduce", "In msg nelems": 10**30, "dtype": "Float"}
    d.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 10, 20, 1, **told).save(trace)
    (member,) = [op for op in imported(trace) if op.collective is Collective.ALL_REDUCE]
    assert member.size_bytes == 0


def test_a_base_time_that_is_no_moment_is_an_error(trace: Path, document: Make) -> None:
    document(header={"baseTimeNanoseconds": 10**30}).op("aten::mm", 0, 30).save(trace)
    with pytest.raises(TraceError, match="baseTimeNanoseconds"):
        imported(trace)
