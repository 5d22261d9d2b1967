"""Which part of files lies in the page cache, and getting them out of it."""

import os
from collections.abc import Iterable
from enum import Enum
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
    """Of evenly spread places of each file; reads nothing from the disk."""
    if not hasattr(os, "RWF_NOWAIT"):
        return float("nan")
    found = [_is_cached(path, at) for path in files for at in _places(path.stat().st_size)]
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


def _is_cached(path: Path, at: int) -> bool:
    with path.open("rb", buffering=0) as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], at, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False
