"""Time that the host took from this machine: the steal column of `/proc/stat`."""

import os
from pathlib import Path
from typing import Final

STAT: Final = Path("/proc/stat")
_STEAL: Final = 8  # column of the `cpu` line
_SECOND_NS: Final = 1_000_000_000


def stolen_here(stat: Path = STAT) -> int | None:
    """Nanoseconds stolen since the machine began, over all cores; None where nothing tells.

    The kernel counts in ticks of a hundredth of a second: less than that shows as nothing.
    """
    try:
        text = stat.read_text()
    except OSError:
        return None
    return stolen_ns(text, os.sysconf("SC_CLK_TCK"))


def stolen_ns(text: str, ticks_per_second: int) -> int | None:
    """The same, of the file's text."""
    cells = text.partition("\n")[0].split()
    if len(cells) <= _STEAL or cells[0] != "cpu":
        return None
    return int(cells[_STEAL]) * _SECOND_NS // ticks_per_second
