"""Imagined passes of a small model take as long as traced ones, whose host decides."""

from pathlib import Path

import pytest
from benchmarks.accuracy import imagined


@pytest.mark.needs("torch")
def test_a_small_models_imagined_pass_takes_as_long_as_on_a_device_from_which_nothing_was_taken(
    real_traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imagined, "TRACES", real_traces / "h100-mi300x")
    row = imagined.row_of("bert-small", imagined.HELD_BACK)
    assert abs(row["step_error"]) < 0.35
    assert abs(row["host_error"]) < 0.35
    assert row["bare_error"] < -0.7, "without its host the pass would take a fraction of that"
