"""Pipelines of real processes against the same training in one process."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the pipeline's workers train with torch")

pytestmark = pytest.mark.live

WORKER = Path(__file__).parent / "worker.py"
EQUAL = 1e-6
TWO = ("2bw:momentum", "2bw:adam", "2bw:adam:recompute", "gpipe:adam", "1f1b:momentum")
FOUR = ("2bw:momentum", "2bw:adam", "1f1b:adam", "gpipe:momentum")
REPLICATED = ("2bw:adam", "1f1b:momentum")


def start(folder: Path, stages: int, replicas: int, scenarios: Sequence[str]) -> list[int]:
    """Run the workers to their end: the exit code of each rank."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, WORKER, folder, str(stages), str(replicas), *scenarios]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr[-3000:]
    codes: list[int] = json.loads((folder / "codes.json").read_text())
    return codes


def results(folder: Path, scenario: str, ranks: int) -> list[dict[str, Any]]:
    name = scenario.replace(":", "-")
    return [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in range(ranks)]


def assert_equals_one_process(found: list[dict[str, Any]], stages: int) -> None:
    for rank, result in enumerate(found):
        assert result["moved"] > 1000 * EQUAL
        assert result["difference"] <= EQUAL < result["difference_with_the_wrong_delay"]
        if rank % stages < stages - 1:
            assert result["losses"] == []
    last = found[stages - 1 :: stages]
    means = [sum(losses) / len(last) for losses in zip(*(r["losses"] for r in last))]
    assert means == pytest.approx(last[0]["losses_alone"], abs=EQUAL)


def assert_fewer_pass(folder: Path) -> None:
    """A quarter of 12 values of 8 bytes, in 6 rows, 8 batches of 4 micro-batches; it learns."""
    first, last = (json.loads((folder / f"border-0.25-{r}.json").read_text()) for r in range(2))
    assert (first["down"], first["up"]) == (32 * (64 + 6 * 3 * (4 + 8)), 0)
    assert (last["down"], last["up"]) == (0, 32 * 6 * 3 * 8)
    assert last["losses"][-1] < last["losses"][0]


@pytest.mark.parametrize(
    ("stages", "replicas", "scenarios"),
    [
        (2, 1, (*TWO, "border:1.0:1f1b:momentum", "border:0.25:1f1b:momentum", "resume:2bw:adam")),
        (4, 1, FOUR),
        (2, 2, REPLICATED),
    ],
    ids=["2 stages", "4 stages", "2 stages twice"],
)
def test_a_pipeline_trains_as_one_process_does(
    tmp_path: Path, stages: int, replicas: int, scenarios: tuple[str, ...]
) -> None:
    """Optimizer state, recomputation and (`resume`) a checkpoint in the middle included."""
    assert start(tmp_path, stages, replicas, scenarios) == [0] * stages * replicas
    for scenario in scenarios:
        if scenario.startswith("border:0"):
            assert_fewer_pass(tmp_path)
            continue
        assert_equals_one_process(results(tmp_path, scenario, stages * replicas), stages)
    if scenarios[-1].startswith("resume"):
        refused = (tmp_path / "refused-0.txt").read_text()
        assert "another pipeline (schedule: 2bw there, 1f1b here)" in refused


def test_when_a_worker_dies_the_others_name_it_and_end(tmp_path: Path) -> None:
    assert start(tmp_path, 4, 1, ["die"]) == [1, 7, 1, 1]
    said = {rank: (tmp_path / f"error-{rank}.txt").read_text() for rank in (0, 2, 3)}
    assert "lost the connection to rank 1: it has ended" in said[0]
    assert "lost the connection to rank 1: it has ended" in said[2]
    assert "lost the connection to rank 2: it has ended" in said[3]
