"""The published pipelines are predicted today as they were when they were measured, to the ns."""

import json
from typing import Any

import pytest
from benchmarks.accuracy.pipeline import LOOPBACK, ROWS, priced
from benchmarks.accuracy.pipeline_profile import at_work

from benchmarks import measure
from paceline.cluster.machine import Machine
from paceline.place.pipeline import PipelinePlan
from paceline.runtime.stages import PipelineSchedule, Shape

pytest.importorskip("paceline._core", reason="the reference takes minutes for it")
KEPT = json.loads((measure.RESULTS / "2026-11-20-accuracy-pipeline.json").read_text())["rows"]


@pytest.mark.parametrize("row", KEPT, ids=lambda r: f"{r['network']} {r['case']} {r['schedule']}")
def test_a_kept_profile_still_predicts_what_was_published(row: dict[str, Any]) -> None:
    network = LOOPBACK if row["network"] == "loopback" else int(row["network"].split()[1])
    stages, microbatches = (int(word) for word in row["case"].split() if word.isdecimal())
    schedule = PipelineSchedule(row["schedule"])
    plan = PipelinePlan(schedule, Shape(stages, microbatches), ROWS)
    known = at_work(row["profiles"][0], schedule, ROWS)
    found = priced(network, plan, known, Machine(**row["machine"]))
    assert found.replayed_step_ns / 1e6 == row["predictions_ms"][0]
    assert found.formula_step_ns > 0
