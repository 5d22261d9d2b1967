"""`paceline pipeline --cluster`: from files to a plan."""

import json
from pathlib import Path

import pytest

from paceline.cli import main

LAYER = {"forward_ns": 1000, "backward_ns": 2000, "input_bytes": 32768, "output_bytes": 32768}
CLUSTER = """
name: two
hosts: [{name: near}, {name: far, link: {rate: 8Mbps}}]
link: {rate: 1Gbps}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    profile, cluster = tmp_path / "profile.json", tmp_path / "c.yaml"
    layers = [{"name": f"layer {n}", **LAYER} for n in range(3)]
    profile.write_text(json.dumps({"sizes": {"4": layers}}))
    cluster.write_text(CLUSTER)
    return ["pipeline", str(profile), "--global-batch", "8", "--cluster", str(cluster)]


def test_a_plan_over_a_cluster_names_hosts_cuts_and_what_passes(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*files, "--compress", "5", "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["plans"][0]
    assert sorted(best["hosts"]) == ["far", "near"]
    assert best["shares"] == [0.3375]
    assert best["microbatches"] == 2
    assert main([*files, "--compress", "5"]) == 0
    assert "34%" in capsys.readouterr().out


def test_compression_without_a_cluster_says_what_it_goes_with(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*files[:4], "--devices", "1", "--compress", "5"]) == 1
    assert "--cluster FILE" in capsys.readouterr().err
