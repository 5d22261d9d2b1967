"""CPU quotas in both kernels' layouts, on a folder that looks like one."""

from pathlib import Path

import pytest

from paceline.lab import LabError
from paceline.lab.quota import controller, labs, make


def test_version_two_is_a_quota_and_a_period_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    group = make(controller(tmp_path), "office", 3, 0.5)
    assert (group / "cpu.max").read_text() == "10000 20000"
    assert (group / "cpu.weight").read_text() == "10000"
    assert labs(tmp_path) == ["office"]


def test_version_one_is_two_files(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1")
    group = make(controller(tmp_path), "office", 0, 1.5)
    assert (group / "cpu.cfs_quota_us").read_text() == "30000"
    assert (group / "cpu.cfs_period_us").read_text() == "20000"
    assert (group / "cpu.shares").read_text() == "262144"


def test_without_a_cpu_controller_the_message_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    with pytest.raises(LabError, match="cpu controller"):
        controller(tmp_path)
