"""Which part of files lies in the page cache, and getting them out of it."""

import ctypes
import os
import sys
from collections.abc import Iterable
from enum import Enum
from mmap import ACCESS_READ, PAGESIZE, mmap
from pathlib import Path
from typing import Final

import numpy as np

from paceline.feed.errors import FeedError

_PROBES: Final = 16  # places of a file that are looked at
_DROP: Final = Path("/proc/sys/vm/drop_caches")


class Dropped(Enum):
    """How files were put out of the cache."""

    BY_FILE = "posix_fadvise"
    WHOLE = "drop_caches"  # everything that the machine had cached


def drop(files: Iterable[Path], *, whole: bool = False) -> Dropped:
    """What was written is first brought to the disk: pages that are not cannot be dropped."""
    if whole:
        return _drop_all()
    if not hasattr(os, "posix_fadvise"):
        raise FeedError("this system has no posix_fadvise, so files cannot be dropped from its "
                        "cache; leave --uncached out")  # fmt: skip
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return Dropped.BY_FILE


def warm(files: Iterable[Path]) -> None:
    """Read everything once."""
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def cached_share(files: Iterable[Path]) -> float:
    """Of evenly spread places of each file. Reads nothing: a read that may not wait would make the
    kernel fetch what it did not find. Files of others, which one may not write, count as cached."""
    if not sys.platform.startswith("linux"):
        return float("nan")
    found = [share for path in files if (share := _share(path)) is not None]
    return float(np.mean(found)) if found else 0.0


def _drop_all() -> Dropped:
    os.sync()
    try:
        _DROP.write_text("1")
    except OSError as error:
        raise FeedError(
            f"the machine's cache cannot be dropped ({error.strerror}: {_DROP}); run as root, or "
            "drop the data set's own files, which needs no rights (--uncached)"
        ) from error
    return Dropped.WHOLE


def _places(size: int) -> list[int]:
    return [round(each) for each in np.linspace(0, max(0, size - 1), _PROBES)]


def _share(path: Path) -> float | None:
    """None of an empty file."""
    size = path.stat().st_size
    if not size:
        return None
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
        content = np.frombuffer(mapped, np.uint8)
        try:
            begin = content.ctypes.data
            return sum(_resident(begin + at) for at in _places(size)) / _PROBES
        finally:
            del content  # a map that is looked at cannot be closed


def _resident(address: int) -> bool:
    told = ctypes.c_ubyte()
    page = ctypes.c_void_p(address - address % PAGESIZE)
    if ctypes.CDLL(None, use_errno=True).mincore(page, ctypes.c_size_t(1), ctypes.byref(told)):
        raise OSError(ctypes.get_errno(), "mincore: " + os.strerror(ctypes.get_errno()))
    return bool(told.value & 1)
