"""How much memory a training may take, and how one that wants more is told from a fault."""

import resource
from pathlib import Path
from typing import Final

DOES_NOT_FIT: Final = 75
"""Exit code of a worker whose training did not get the memory it asked for."""

_REFUSALS: Final = ("can't allocate memory", "bad_alloc", "bad allocation", "out of memory")
"""How torch's allocators spell it; on processors they have no type of their own for it."""


def limit_memory(size_bytes: int) -> None:
    """From now on this process gets no more than so much besides what it has; 0: no limit."""
    if size_bytes:
        most = held_bytes() + size_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or says_out_of_memory(str(error))


def says_out_of_memory(text: str) -> bool:
    return any(refusal in text for refusal in _REFUSALS)


def held_bytes(status: Path = Path("/proc/self/status")) -> int:
    """What the kernel counts against the limit: private memory that can be written."""
    return _field(status, "VmData")


def free_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """What the machine could give without swapping; 0 where the system does not say."""
    return _field(meminfo, "MemAvailable")


def _field(path: Path, name: str) -> int:
    """A line of kB in one of the kernel's tables."""
    if not path.exists():
        return 0
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return 1024 * int(lines[name].split()[0]) if name in lines else 0
