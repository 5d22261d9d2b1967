"""CPU quotas: a worker on a slower host is a process in a control group with a share of a core.

A quota is what the worker gets, not only what it may not pass: its group goes before all others,
so that who else is at work on the machine waits for it.

Both kernels' layouts are known: version 2 (`cpu.max`) and version 1 (`cpu.cfs_quota_us`).
"""

import os
from dataclasses import dataclass
from pathlib import Path

from paceline.lab.errors import LabError
from paceline.lab.layout import PREFIX

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 20_000  # short, so that a step is slowed evenly rather than stopped for a while
FIRST = {2: ("cpu.weight", 10_000), 1: ("cpu.shares", 262_144)}
"""The most that a group can weigh against others, by version; 100 and 1,024 are usual."""


@dataclass(frozen=True)
class Controller:
    """Where CPU quotas are set on this machine."""

    folder: Path
    version: int

    def write(self, group: Path, cpus: float) -> None:
        quota, (weight, most) = max(1000, round(cpus * PERIOD_US)), FIRST[self.version]
        (group / weight).write_text(str(most))
        if self.version == 2:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))


def controller(root: Path = ROOT) -> Controller:
    """The machine's CPU controller; an error that says what is missing where there is none."""
    for folder, version in zip(_folders(root), (2, 2, 1, 1)):
        if _has_cpu(folder, version) and os.access(folder, os.W_OK):
            return Controller(folder, version)
    raise LabError(
        "CPU quotas need a writable cpu controller (control groups version 1 or 2) below "
        f"{root}, and root. Leave out `cpus` of the hosts, or run where control groups are."
    )


def make(controller: Controller, lab: str, worker: int, cpus: float) -> Path:
    """A control group for one worker, of `cpus` cores; returns its folder."""
    group = controller.folder / f"{PREFIX}.{lab}.{worker}"
    try:
        group.mkdir(exist_ok=True)
        controller.write(group, cpus)
    except OSError as error:
        raise LabError(f"the CPU quota of worker {worker} cannot be set: {error}") from error
    return group


def remove_all(lab: str, root: Path = ROOT) -> None:
    """Remove the control groups of a lab; its processes must have ended."""
    for folder in _folders(root):
        for group in folder.glob(f"{PREFIX}.{lab}.*"):
            group.rmdir()


def labs(root: Path = ROOT) -> list[str]:
    """Names of labs that have control groups here."""
    return sorted({g.name.split(".")[1] for f in _folders(root) for g in f.glob(f"{PREFIX}.*.*")})


def _folders(root: Path) -> tuple[Path, ...]:
    return (root, root / "unified", root / "cpu", root / "cpu,cpuacct")


def _has_cpu(folder: Path, version: int) -> bool:
    if version == 1:
        return (folder / "cpu.cfs_quota_us").exists() or (folder / "cpu.shares").exists()
    enabled = folder / "cgroup.subtree_control"
    return enabled.exists() and "cpu" in enabled.read_text().split()
