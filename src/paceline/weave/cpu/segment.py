"""`Segment`: one piece of shared memory that all ranks of a host have mapped.

Rank 0 creates the file in /dev/shm, all ranks map it, and it is unlinked at once: from then on it
lives exactly as long as somebody has it mapped, so a killed worker leaves nothing behind.
Each rank holds a lock on one byte of it; the kernel drops that lock when the process ends, however
it ends, which is how the others notice.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from paceline.errors import PacelineError

_ALIGN = 4096
_BOOT = Path("/proc/sys/kernel/random/boot_id")

Gather = Callable[[Any], list[Any]]
"""Give one value, receive every rank's, in rank order: `all_gather_object` of some group."""


class SharedMemoryError(PacelineError):
    """Shared memory is too small, cannot be made, or the ranks do not share a host."""


@dataclass(frozen=True)
class Region:
    """Where named bytes lie within the segment."""

    offset: int
    size_bytes: int


def plan(regions: Mapping[str, int]) -> tuple[dict[str, Region], int]:
    """Page-aligned places for regions of the given sizes, and the size of it all."""
    placed, offset = {}, 0
    for name, size in regions.items():
        placed[name] = Region(offset, size)
        offset += -(-size // _ALIGN) * _ALIGN
    return placed, offset


class Segment:
    """Named regions of memory, a file in `folder`, that all ranks share; this process is `rank`."""

    def __init__(self, rank: int, gather: Gather, regions: Mapping[str, int], folder: Path) -> None:
        self.regions, self.size_bytes = plan(regions)
        self.fd = _open_together(rank, gather, self.size_bytes, folder)
        self._map = mmap.mmap(self.fd, self.size_bytes)
        fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
        gather(None)  # every lock is held before anybody looks for a missing one

    def array(self, name: str, dtype: DTypeLike) -> NDArray[Any]:
        """A region as an array; it keeps the mapping alive."""
        region = self.regions[name]
        count = region.size_bytes // np.dtype(dtype).itemsize
        return np.frombuffer(self._map, dtype, count, region.offset)

    def close(self) -> None:
        """Drop the file handle and with it the sign of life; arrays still in use stay valid."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _open_together(rank: int, gather: Gather, size_bytes: int, folder: Path) -> int:
    """One unlinked file, open in every rank; either all ranks get it or all raise."""
    problem, path, fd = "", "", -1
    if rank == 0:
        try:
            path, fd = _create(size_bytes, folder)
        except SharedMemoryError as error:
            problem = str(error)
    try:
        path, problem, host = gather((path, problem, _host()))[0]
        if not problem and _host() != host:
            problem = f"rank {rank} is not on the host of rank 0"
        if not problem and rank != 0:
            fd, problem = _attach(path)
        problems = [text for text in gather(problem) if text]
    finally:
        if rank == 0 and path:
            Path(path).unlink(missing_ok=True)
    if problems:
        if fd >= 0:
            os.close(fd)
        raise SharedMemoryError(
            f"{problems[0]}. Ranks that share one host and its /dev/shm can use shared memory; "
            "others must use the plain all-reduce schedule."
        )
    return fd


def _create(size_bytes: int, folder: Path) -> tuple[str, int]:
    """A new file with all its memory set aside, so that no later write can fail."""
    path = folder / f"paceline-{os.getpid()}-{os.urandom(6).hex()}"
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SharedMemoryError(
            f"cannot make shared memory in {folder}: {error.strerror}"
        ) from None
    try:
        os.posix_fallocate(fd, 0, size_bytes)
    except OSError as error:
        os.close(fd)
        path.unlink()
        if error.errno != errno.ENOSPC:
            raise SharedMemoryError(f"cannot size {folder}: {error.strerror}") from None
        free = os.statvfs(folder)
        raise SharedMemoryError(
            f"{folder} has {free.f_bavail * free.f_frsize / 1e6:.0f} MB free and the fused step "
            f"needs {size_bytes / 1e6:.0f} MB; enlarge it (docker run --shm-size, or remount it)"
        ) from None
    return str(path), fd


def _attach(path: str) -> tuple[int, str]:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC), ""
    except OSError as error:
        return -1, f"cannot open the shared memory of rank 0: {error.strerror}"


def _host() -> str:
    """The same text for processes on one booted host, whatever network namespace they are in."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return os.uname().nodename
