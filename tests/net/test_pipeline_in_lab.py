"""Stages of a pipeline as workers of a lab: they hold what they hold over loopback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.lab import Lab

pytest.importorskip("torch", reason="pipelines run on torch; install paceline[torch]")
pytestmark = [
    pytest.mark.net,
    pytest.mark.needs("root", "namespaces", "iproute2"),
]

STAGES = Path(__file__).parents[2] / "benchmarks" / "accuracy" / "jobs" / "stages.py"


def test_stages_in_namespaces_hold_the_bytes_that_they_hold_over_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH")  # what stages hold ends as soon as a user's collector runs
    hosts = tuple(Host(f"h{i}", Device("core")) for i in range(2))
    with Lab(Cluster(hosts, Link.both_ways(100e6 / 8)), f"pipe-{os.getpid()}") as lab:
        done = lab.run(
            [sys.executable, str(STAGES), "seat", "2", "4", "8", "3"], timeout_s=90, logs=tmp_path
        )
        said = [json.loads(done.text(worker).splitlines()[-1]) for worker in range(2)]
    alone = subprocess.run(
        [sys.executable, str(STAGES), "memory", "2", "4", "8"],
        check=True, capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    held = json.loads(alone.stdout)
    assert {name: [one["held"][name] for one in said] for name in held} == held
    assert all(len(steps) == 1 for steps in said[0]["steps"].values())
