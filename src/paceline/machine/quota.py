"""A container's share of the cores, and for how long it was throttled for passing it.

Control groups of both versions: `cpu.max` and `throttled_usec`, `cpu.cfs_quota_us` and
`throttled_time`. Every group around the process limits it, so all of them are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Quota:
    """Cores that may be used (None: all), and time for which the container's threads were kept
    from running."""

    cores: float | None
    throttled_ns: int


def quota_here(root: Path = ROOT, membership: Path = MEMBERSHIP) -> Quota | None:
    """The tightest limit on this process and the longest throttling; None without groups."""
    try:
        found = [quota for at in groups_of("cpu", root, membership) if (quota := quota_in(at))]
    except OSError:
        return None
    if not found:
        return None
    limits = [quota.cores for quota in found if quota.cores is not None]
    return Quota(min(limits, default=None), max(quota.throttled_ns for quota in found))


def limited_groups(root: Path = ROOT, membership: Path = MEMBERSHIP) -> list[Path]:
    """The folders of the groups that limit this process: only those are ever throttled."""
    known = ((at, quota_in(at)) for at in groups_of("cpu", root, membership))
    return [at for at, quota in known if quota is not None and quota.cores is not None]


def quota_in(group: Path) -> Quota | None:
    """Of one group's folder; None where it counts nothing."""
    stat = group / "cpu.stat"
    if not stat.is_file():
        return None
    return Quota(_cores(group), throttled_ns(stat.read_text()))


def throttled_ns(text: str) -> int:
    """Of a `cpu.stat`; 0 where the group has no limit and so no count."""
    counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    if "throttled_usec" in counts:
        return int(counts["throttled_usec"]) * 1000
    return int(counts.get("throttled_time", 0))


def _cores(group: Path) -> float | None:
    if (group / "cpu.max").is_file():
        allowed, period = (group / "cpu.max").read_text().split()
        return None if allowed == "max" else int(allowed) / int(period)
    if not (group / "cpu.cfs_quota_us").is_file():
        return None
    limit = int((group / "cpu.cfs_quota_us").read_text())
    return None if limit < 0 else limit / int((group / "cpu.cfs_period_us").read_text())


def groups_of(controller: str, root: Path = ROOT, membership: Path = MEMBERSHIP) -> list[Path]:
    """The folders of the process's groups of a controller and of all around them, as far as they
    can be seen."""
    try:
        return list(_groups(controller, root, membership.read_text()))
    except OSError:
        return []


def _groups(controller: str, root: Path, membership: str) -> Iterator[Path]:
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for base in (root / controllers, root) if controllers else (root, root / "unified"):
            if base.is_dir():
                inner = base / path.lstrip("/")
                yield from (at for at in (inner, *inner.parents) if at.is_relative_to(base))
                break
