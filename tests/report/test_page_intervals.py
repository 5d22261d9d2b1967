"""A timeline that is too long for a file, drawn as intervals."""

import sys

import numpy as np
import pytest

from paceline.graph.synthetic.training import training
from paceline.graph.synthetic.training_job import TrainingJob
from paceline.replay import replay
from paceline.report.page import PageRequest, gather
from paceline.report.page.contents import Kind
from paceline.report.page.intervals import intervals
from paceline.report.page.scenarios import JobOnCluster, predicted

JOB = training(TrainingJob(workers=3, layers=20, steps=4))


@pytest.mark.parametrize("most", [10, 60, 100_000])
def test_every_op_lies_in_its_interval(most: int) -> None:
    timeline = replay(JOB)
    made = intervals(Kind.RECORDED, "run", timeline, most)
    columns = {name: column.values for name, column in made.track.columns.items()}
    works = np.flatnonzero(timeline.end_ns > timeline.start_ns)
    held = made.of(works)
    ends = columns["start"] + columns["took"]
    assert (columns["lane"][held] == JOB.ops.lane[works]).all()
    assert (columns["start"][held] <= timeline.start_ns[works]).all()
    assert (ends[held] >= timeline.end_ns[works]).all()


def test_intervals_stand_for_all_ops() -> None:
    timeline = replay(JOB)
    made = intervals(Kind.RECORDED, "run", timeline, 40)
    names, name = made.track.names, made.track.columns["name"].values
    count = sum(int(names[at].split()[0]) for at in name.tolist())
    waits = int((timeline.start_ns > timeline.ready_ns).sum())
    assert count == int((timeline.end_ns > timeline.start_ns).sum()) + waits
    assert f"{len(JOB):,} ops as {len(name):,} intervals" in made.track.title


def test_links_of_a_large_run_lead_to_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["paceline.report.page.gather"], "MOST_OPS", 100)
    contents = gather(PageRequest("run", JOB))
    count = len(contents.tracks[0].columns["start"].values)
    linked = [row.op for row in (*contents.path_ops, *contents.path_by_kind)]
    linked += [piece.op for sentence in contents.headline for piece in sentence if piece.op]
    linked += [row[-1] for row in contents.meetings.rows]
    assert linked
    assert max(op for op in linked if op is not None) < count < len(JOB)
    typical = len(predicted(JobOnCluster(JOB)).timeline.graph)
    assert f"replayed as {typical:,} ops or more, and a page holds" in contents.missing["what_if"]
