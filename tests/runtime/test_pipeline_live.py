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


def start(folder: Path, stages: int, replicas: int, scenarios: Sequence[str]) -> list[Any]:
    """Run the workers to their end: (exit code, what it said) of each rank."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(
            [sys.executable, WORKER, folder, str(rank), str(stages), str(replicas), *scenarios],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(stages * replicas)
    ]
    said = [worker.communicate(timeout=120)[1] for worker in workers]
    return [(worker.returncode, text) for worker, text in zip(workers, said)]


def results(folder: Path, scenario: str, ranks: int) -> list[dict[str, Any]]:
    name = scenario.replace(":", "-")
    return [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in range(ranks)]


def assert_equals_one_process(found: list[dict[str, Any]], stages: int) -> None:
    for rank, result in enumerate(found):
        assert result["moved"] > 0.01
        assert result["difference"] <= EQUAL < result["difference_with_the_wrong_delay"]
        if rank % stages < stages - 1:
            assert result["losses"] == []
    last = found[stages - 1 :: stages]
    means = [sum(losses) / len(last) for losses in zip(*(r["losses"] for r in last))]
    assert means == pytest.approx(last[0]["losses_alone"], abs=EQUAL)


@pytest.mark.parametrize(
    ("stages", "replicas", "scenarios"),
    [(2, 1, (*TWO, "resume:2bw:adam")), (4, 1, FOUR), (2, 2, REPLICATED)],
    ids=["2 stages", "4 stages", "2 stages twice"],
)
def test_a_pipeline_trains_as_one_process_does(
    tmp_path: Path, stages: int, replicas: int, scenarios: tuple[str, ...]
) -> None:
    """Optimizer state, recomputation and (`resume`) a checkpoint in the middle included."""
    ended = start(tmp_path, stages, replicas, scenarios)
    assert [code for code, _ in ended] == [0] * stages * replicas, ended[0][1][-2000:]
    for scenario in scenarios:
        assert_equals_one_process(results(tmp_path, scenario, stages * replicas), stages)
    if scenarios[-1].startswith("resume"):
        refused = (tmp_path / "refused-0.txt").read_text()
        assert "another pipeline (schedule: 2bw there, 1f1b here)" in refused


def test_when_a_worker_dies_the_others_name_it_and_end(tmp_path: Path) -> None:
    ended = start(tmp_path, 4, 1, ["die"])
    assert [code for code, _ in ended] == [1, 7, 1, 1]
    assert "PipelineError: lost the connection to rank 1: it has ended" in ended[0][1]
    assert "PipelineError: lost the connection to rank 1: it has ended" in ended[2][1]
    assert "PipelineError: lost the connection to rank 2: it has ended" in ended[3][1]
