"""The report of any recorded job, and this machine's peaks."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paceline.bench.kept import load_peaks, save
from paceline.bench.measured import figures_of
from paceline.cli import main

if TYPE_CHECKING:
    from paceline.record.launch import Recording

pytestmark = pytest.mark.needs("torch", "linux")


def test_peaks_of_this_machine_come_back_from_their_file(tmp_path: Path) -> None:
    from paceline.graph import DType
    from paceline.measure.torch_peaks import measured_peaks

    peaks = measured_peaks(threads=1)
    assert load_peaks(tmp_path) is None
    save(peaks, tmp_path)
    assert load_peaks(tmp_path) == peaks
    device = peaks.device()
    assert device.flops_per_s[DType.FLOAT32] > device.memory_bytes_per_s / 12


@pytest.mark.live
def test_a_job_on_processors_is_told_by_usage_efficiency_and_structure(
    ddp_recording: "Recording",
) -> None:
    seen = figures_of(ddp_recording.folder)
    usage, held = seen.usage, seen.structure
    spent = usage.compute + usage.communication + usage.data + usage.queued + usage.rest
    assert spent == pytest.approx(1)
    assert usage.cpu is not None
    assert 0 < usage.cpu <= 1
    assert held is not None
    assert sum(held.parts.values()) == held.peak_bytes
    assert {"weights", "gradients", "optimizer state", "activations"} <= set(held.parts)
    assert seen.efficiency is not None
    rows = {row.name: row for row in seen.efficiency.classes}
    assert rows["matrix"].of_peak > 0
    assert seen.efficiency.utilisation > 0


@pytest.mark.live
def test_show_efficiency_tells_the_same_of_any_run(
    ddp_recording: "Recording", capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(ddp_recording.folder), "--efficiency", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["observations"][0]["rule"] == "bound_by"
    assert told["structure"]["parts"]["weights"] > 0
    assert main(["show", str(ddp_recording.folder), "--efficiency"]) == 0
    assert "memory peak" in capsys.readouterr().out
