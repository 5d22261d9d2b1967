"""Memory that the machine and the container of this process could still give, and what it holds."""

from pathlib import Path
from typing import Final

from paceline.machine.quota import MEMBERSHIP, ROOT, groups_of

_LIMITS: Final = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Of control groups of both versions: what the group may take, what it has, and which part of that
is pages of files that it gives back when asked."""


def free_bytes(
    meminfo: Path = Path("/proc/meminfo"), root: Path = ROOT, membership: Path = MEMBERSHIP
) -> int:
    """What could be given without swapping; 0 where the system does not say."""
    left = [_field(meminfo, "MemAvailable")]
    for group in groups_of("memory", root, membership):
        left += [_left(group, *names) for names in _LIMITS if _is_limited(group / names[0])]
    return max(0, min(left))


def _is_limited(limit: Path) -> bool:
    return limit.is_file() and limit.read_text().strip() != "max"


def _left(group: Path, limit: str, used: str, files: str) -> int:
    counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    given_back = int(counts.get(files, 0))
    return int((group / limit).read_text()) - int((group / used).read_text()) + given_back


def held_bytes(status: Path = Path("/proc/self/status")) -> int:
    """What the kernel counts against a limit of this process: private memory that can be
    written."""
    return _field(status, "VmData")


def _field(path: Path, name: str) -> int:
    """A line of kB in one of the kernel's tables."""
    if not path.exists():
        return 0
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return 1024 * int(lines[name].split()[0]) if name in lines else 0
