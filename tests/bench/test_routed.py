"""A job whose steps differ: tokens go to other experts in each."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from paceline.bench.point import Key
from paceline.bench.sweep import command
from paceline.predict import predict
from paceline.record.launch import RecordRequest, launch
from paceline.trace.runs import open_run

if TYPE_CHECKING:
    from paceline.graph import Graph

pytestmark = [pytest.mark.slow, pytest.mark.live, pytest.mark.needs("torch", "linux")]


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> "Graph":
    folder: Path = tmp_path_factory.mktemp("routed") / "run"
    line = command(Key("moe", 2, 2), "--steps", "30")
    done = launch(RecordRequest(line, folder, 5, 3), os.environ)
    assert done.exit_code == 0
    return open_run(folder)


def test_a_mixture_of_experts_on_two_workers_can_be_predicted(routed: "Graph") -> None:
    found = predict(routed, ["scale(select='phase=forward', factor=1.0)"])
    assert found.step_ns > 0


def test_its_peak_is_told_with_the_step_whose_sizes_it_has(routed: "Graph") -> None:
    memory = predict(routed).memory
    assert memory is not None
    assert len(memory.ranks) == 2
    for peak in memory.ranks:
        assert peak.by_category["weights"] > 0
        assert peak.by_category["activations"] > 0
        assert peak.step > 0
        assert 0 <= peak.other_ops < 0.25


def test_its_operators_have_modules(routed: "Graph") -> None:
    named = {routed.text(int(name)) for name in np.unique(routed.ops.layer) if name >= 0}
    assert any(".then.experts." in name for name in named)
