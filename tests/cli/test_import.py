"""`paceline import`, and `paceline show` on what it made."""

import json
from pathlib import Path

import pytest

from paceline.cli import main


def trace(rank: int, start: int) -> dict[str, object]:
    """One rank of two in an all-reduce that it joins at `start` and that ends at 100."""
    place = {"pid": 1, "tid": 1}
    told = {
        "stream": 7,
        "device": 0,
        "correlation": 1,
        "Collective name": "allreduce",
        "In msg nelems": 1000,
        "dtype": "Float",
        "Process Group Name": "dp",
        "Process Group Ranks": "[0, 1]",
    }
    rows = [
        {"cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 120, **place},
        {"cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 9, **place},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 9, "dur": 1, **place},
        {"cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32", "pid": 0, "tid": 7},
    ]
    rows[2]["args"] = {"correlation": 1}
    rows[3].update(ts=start, dur=100 - start, args=told)
    return {
        "schemaVersion": 1,
        "distributedInfo": {"rank": rank, "world_size": 2},
        "traceEvents": [{"ph": "X", **row} for row in rows],
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for rank, start in enumerate((20, 70)):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace(rank, start)))
    traces = [str(tmp_path / f"rank{rank}.json") for rank in range(2)]
    assert main(["import", *traces, "-o", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def test_an_imported_run_holds_the_files_and_the_graph(run: Path) -> None:
    assert sorted(path.name for path in (run / "raw").iterdir()) == ["rank0.json", "rank1.json"]
    assert (run / "graph").is_dir()


def test_show_tells_waiting_from_transfer_and_who_was_late(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["show", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["run"]
    (group,) = told["groups"]
    assert (group["group"], group["waiting_ns"], group["transfer_ns"]) == ("dp", 50_000, 60_000)
    assert [row["rank"] for row in told["stragglers"]] == [1]
    assert told["steps"] == {"number": [1], "lasted_ns": [120_000]}


def test_show_lists_each_collective(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["show", str(run), "--collectives"]) == 0
    shown = capsys.readouterr().out
    assert "all_reduce" in shown
    assert "50.0 us" in shown  # skew
    assert "133 MB/s" in shown  # 4,000 bytes, 2 (n - 1) / n of them over each link, in 30 us


def test_wrong_ranks_are_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["import", str(tmp_path), "-o", str(tmp_path / "run"), "--ranks", "a,b"])
    assert "is no list of ranks, such as 0,1,2" in capsys.readouterr().err


def test_no_traces_is_an_error_that_names_the_formats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    assert main(["import", str(tmp_path / "notes.txt"), "-o", str(tmp_path / "run")]) == 1
    assert "Read are: PyTorch's Kineto traces" in capsys.readouterr().err
