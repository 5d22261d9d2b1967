"""What a calibration says of a machine follows from its sweeps, and survives its file."""

import json
from pathlib import Path

import pytest

from paceline.cost import CostError
from paceline.cost.calibrate.result import Calibration, Overlap, Sweep, load
from paceline.graph import DType

SIZES = (1e3, 1e6, 2e6, 4e6)


def line(latency_ns: float, per_s: float) -> Sweep:
    return Sweep(SIZES, tuple(latency_ns + size / per_s * 1e9 for size in SIZES))


def made(workers: int = 4) -> Calibration:
    copy = elementwise = line(500.0, 4e9)
    return Calibration(
        "here", 2, workers, line(100.0, 1e11), copy, elementwise, line(60_000.0, 1e8),
        Overlap(1.2, 1.5),
    )  # fmt: skip


def test_a_calibration_comes_back_from_its_file(tmp_path: Path) -> None:
    made().save(tmp_path / "here.json")
    read = load(tmp_path / "here.json")
    assert (read.machine, read.threads, read.workers) == ("here", 2, 4)
    assert read.overlap == Overlap(1.2, 1.5)
    assert read.gemm.line() == made().gemm.line()


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_a_calibration_of_another_version_is_refused(tmp_path: Path, version: object) -> None:
    path = tmp_path / "other.json"
    made().save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
    with pytest.raises(CostError, match="no calibration of version 1"):
        load(path)


def test_the_device_is_as_fast_as_what_was_measured() -> None:
    device = made().device()
    assert device.memory_bytes_per_s == pytest.approx(4e9)
    assert device.flops_per_s[DType.FLOAT32] == pytest.approx(1e11)


@pytest.mark.parametrize("workers", [2, 4])
def test_a_link_carries_what_each_worker_sends_of_an_all_reduce(workers: int) -> None:
    link = made(workers).link()
    assert link.up_bytes_per_s == pytest.approx(1e8 * 2 * (workers - 1) / workers)


def test_half_of_an_all_reduces_latency_is_the_calls_and_half_its_messages() -> None:
    library = made().rates().library
    assert library is not None
    assert library.call_ns == pytest.approx(30_000)
    assert library.message_ns * 4 * 3 == pytest.approx(30_000)
