"""Which op completes which gradient, in live recordings."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from paceline.graph.gradients import gradients_of
from paceline.record.launch import Recording
from paceline.trace.gradients import ACCUMULATION
from paceline.trace.runs import open_run

BEFORE_NS = 2_000


@pytest.mark.live
@pytest.mark.needs("torch")
def test_an_accumulation_of_the_step_before_the_first_is_none_of_the_first(
    ddp_recording: Recording, tmp_path: Path
) -> None:
    """A rank that begins later waits in the graph from where the first one began."""
    for file in ddp_recording.folder.glob("rank-*"):
        shutil.copy(file, tmp_path)
    shutil.copy(ddp_recording.folder / "job.json", tmp_path)
    for rank in range(2):
        put_before(tmp_path / f"rank-{rank}.trace.json", begun_ns(tmp_path, rank))
    graph = open_run(tmp_path)
    found = gradients_of(graph)
    each = len(graph.facts.parameters)
    for rank in range(2):
        mine = graph.ops.step[found.op[graph.ops.rank[found.op] == rank]]
        assert np.unique(mine, return_counts=True)[1].tolist() == [each] * len(np.unique(mine))
        assert len(np.unique(mine)) == len(np.unique(graph.ops.step))


def begun_ns(folder: Path, rank: int) -> int:
    lines = (folder / f"rank-{rank}.facts.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    steps = [each for each in told if each["is"] == "step" and each["mode"] == "recorded"]
    return min(int(each["begin_ns"]) for each in steps)


def put_before(file: Path, moment_ns: int) -> None:
    """One more accumulation, which ends shortly before."""
    trace = json.loads(file.read_text())
    like = next(each for each in trace["traceEvents"] if each.get("name", "") == ACCUMULATION)
    base = trace.get("baseTimeNanoseconds", 0)
    made = {**like, "ts": (moment_ns - BEFORE_NS - base) / 1e3, "dur": 1.0}
    trace["traceEvents"].append(made)
    file.write_text(json.dumps(trace))
