"""What was taken from this machine's threads: by its host, a container's quota, and each other.

The files stay open, for a live job reads them again and again: finding and opening them takes ten
times as long as reading. A quota that is set after the first reading is not seen.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

from paceline.machine.busy import busy_ns
from paceline.machine.quota import MEMBERSHIP, ROOT, limited_groups, throttled_ns
from paceline.machine.stolen import STAT, stolen_ns

_LINE: Final = 256  # bytes that hold the first line of /proc/stat
_GROUP: Final = 1024  # and all of a group's cpu.stat


class Strain(NamedTuple):
    """Nanoseconds since the machine and its groups began."""

    stolen_ns: int  # over all cores
    throttled_ns: int
    busy_ns: int = 0  # what all programs ran, over all cores


class StrainReader:
    """Where the machine does not tell, nothing was taken."""

    def __init__(self, stat: Path = STAT, root: Path = ROOT, membership: Path = MEMBERSHIP) -> None:
        self._stat = _opened(stat)
        groups = limited_groups(root, membership)
        self._groups = [file for at in groups if (file := _opened(at / "cpu.stat")) is not None]
        self._ticks = os.sysconf("SC_CLK_TCK")

    def read(self) -> Strain:
        stat = "" if self._stat is None else _text(self._stat, _LINE)
        throttled = (throttled_ns(_text(file, _GROUP)) for file in self._groups)
        return Strain(
            stolen_ns(stat, self._ticks) or 0,
            max(throttled, default=0),
            busy_ns(stat, self._ticks) or 0,
        )

    def close(self) -> None:
        for file in (self._stat, *self._groups):
            if file is not None:
                os.close(file)
        self._stat, self._groups = None, []


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _text(file: int, size: int) -> str:
    """Empty where what the file told of is gone."""
    try:
        return os.pread(file, size, 0).decode(errors="replace")
    except OSError:
        return ""
