"""Memory that is free: the machine's, or less where a container has a limit."""

from pathlib import Path

import pytest

from paceline.machine import free_bytes, held_bytes


def meminfo(folder: Path) -> Path:
    path = folder / "meminfo"
    path.write_text("MemTotal: 8 kB\nMemAvailable:       4 kB\n")
    return path


def test_the_kernels_tables_are_read_in_bytes(tmp_path: Path) -> None:
    assert free_bytes(meminfo(tmp_path), tmp_path / "none", tmp_path / "none") == 4096
    assert held_bytes(tmp_path / "absent") == 0


@pytest.mark.parametrize(("limit", "free"), [("max", 4096), ("3000", 2500), ("400", 0)])
def test_a_container_gives_no_more_than_it_may(tmp_path: Path, limit: str, free: int) -> None:
    (tmp_path / "own").write_text("0::/job/worker\n")
    group = tmp_path / "groups" / "job"
    (group / "worker").mkdir(parents=True)
    (group / "memory.max").write_text(f"{limit}\n")
    (group / "memory.current").write_text("1000\n")
    (group / "memory.stat").write_text("anon 400\ninactive_file 500\n")
    found = free_bytes(meminfo(tmp_path), tmp_path / "groups", tmp_path / "own")
    assert found == free


def test_groups_of_the_first_version_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:memory:/job\n3:cpu,cpuacct:/other\n")
    group = tmp_path / "groups" / "memory" / "job"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("1500\n")
    (group / "memory.usage_in_bytes").write_text("1000\n")
    (group / "memory.stat").write_text("inactive_file 9\ntotal_inactive_file 100\n")
    assert free_bytes(meminfo(tmp_path), tmp_path / "groups", tmp_path / "own") == 600
