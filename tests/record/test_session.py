"""One session of torch's profiler, paused before it is stopped."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from paceline.record.torch_profile import Counted, Session, counted_in, events_in
from paceline.trace.readers import chrome
from paceline.trace.readers.source import Source

KINETO = ("USDT:", "DeviceProperties.cpp")
"""Its own lines of start and stop, and of a build for GPUs where there is none, which
`KINETO_LOG_LEVEL` silences in a job."""


def test_after_a_pause_nothing_is_recorded_or_said_and_ranges_are_on_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tensor = torch.ones(4)
    session = Session(tmp_path / "trace.json", detail=False)
    session.start()
    tensor.neg_()
    session.pause()
    session.pause()
    tensor.exp_()
    session.resume()
    tensor.abs_()
    session.pause()
    tensor.exp_()
    session.stop()
    session.export()
    names = set(chrome.read(Source(session.path)).names)
    assert "aten::neg_" in names
    assert "aten::abs_" in names
    assert "aten::exp_" not in names
    said = "".join(capfd.readouterr()).splitlines()
    assert [line for line in said if not any(own in line for own in KINETO)] == []
    with torch.profiler.profile() as again:
        tensor.exp_()
    assert "aten::exp_" in {event.name for event in again.events()}
    assert events_in(session.path) > 0


def test_calls_of_a_driver_are_counted_and_work_of_a_device_is_not(tmp_path: Path) -> None:
    kinds = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy")
    lines = [f'    "ph": "X", "cat": "{kind}", "name": "some"' for kind in kinds]
    trace = tmp_path / "trace.json"
    trace.write_text("\n".join([*lines, '    "ph": "s", "cat": "ac2g"']))
    assert events_in(trace) == len(kinds)
    assert counted_in(trace) == Counted(ops=4, calls=2)
