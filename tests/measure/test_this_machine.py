"""Measuring this machine, with real gloo workers."""

import json
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.cluster import Cluster, Host
from paceline.cost import Basis, prices
from paceline.graph import DType, GraphBuilder
from paceline.graph.kinds import UNPRICED
from paceline.machine import this_machine
from paceline.measure import MeasureError, load, measure

pytest.importorskip("torch", reason="calibration measures with torch; install paceline[torch]")


@pytest.mark.slow
@pytest.mark.live
def test_a_machine_is_measured_kept_and_priced_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "here.json"
    code = main(["measure", "--workers", "2", "--repeats", "5", "--out", str(path), "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    shown = json.loads(printed.out)
    assert shown["gemm"]["flops_per_s"] > 1e8
    assert shown["all_reduce_2_workers"]["bytes_per_s"] > 1e6
    assert min(shown["overlap"].values()) >= 1.0
    made = load(path)
    assert made.date.startswith("20")
    assert made.machine == this_machine()
    assert made.pulse is not None
    assert made.shared is None
    b = GraphBuilder()
    b.op("gemm", b.lane(), UNPRICED, flops=2 * 512**3, size_bytes=1, dtype=DType.FLOAT32)
    found = prices(b.build(), Cluster((Host("here", made.device()),), made.link()), made.rates())
    line = made.gemm.line()
    expected = max(0, line.latency_ns) + 2 * 512**3 / line.bytes_per_s * 1e9
    assert found.dur_ns[0] == pytest.approx(expected, rel=0.01)
    assert found.basis[0] == Basis.FITTED


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(MeasureError, match="0 workers"):
        measure(workers=0)
