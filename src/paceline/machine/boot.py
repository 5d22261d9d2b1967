"""Which machine this is, whatever containers and namespaces call it: the kernel's own mark."""

from pathlib import Path
from typing import Final

BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_here(path: Path = BOOT) -> str:
    """The same for all processes since the machine began; "" where the kernel does not tell."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
