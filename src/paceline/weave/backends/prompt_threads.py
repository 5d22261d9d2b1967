"""Threads that move bytes run as soon as their bytes arrive, although a product fills every core.

On Linux since 6.12 a waking thread with a shorter slice preempts one with a longer slice; without
it a transfer's thread waits for up to a full slice (3 ms) at each of its many steps, and nothing
overlaps. Needs no privilege; where the kernel refuses, nothing changes and that is logged.
"""

import ctypes
import logging
import os
import platform
import struct
import threading
from pathlib import Path

log = logging.getLogger("paceline.weave")

SLICE_NS = 100_000  # the shortest that the kernel grants
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_ATTRIBUTES = struct.Struct("IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, ...


def prompt_threads() -> int:
    """Shorten the slice of every thread of this process but the calling one; how many it was."""
    call = _SCHED_SETATTR.get(platform.machine())
    if call is None or platform.system() != "Linux":
        log.info("transfers keep ordinary threads: no sched_setattr on %s", platform.machine())
        return 0
    others = {int(p.name) for p in Path("/proc/self/task").iterdir()} - {threading.get_native_id()}
    return sum(_shorten(call, thread) for thread in others)


def _shorten(call: int, thread: int) -> bool:
    """Keep the thread's nice value; set its slice."""
    try:
        nice = os.getpriority(os.PRIO_PROCESS, thread)
    except ProcessLookupError:
        return False  # it ended meanwhile
    size = _ATTRIBUTES.size
    wanted = _ATTRIBUTES.pack(size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    failed = ctypes.CDLL(None, use_errno=True).syscall(call, thread, wanted, 0)
    if failed:
        log.info("a thread keeps its slice: %s", os.strerror(ctypes.get_errno()))
    return not failed
