"""What a fresh page costs a job.

A loop over fresh pages alone says too little: pages that the system clears push the job's own data
out of the caches. The job's plain steps tell better, where they differ by enough of them: those
before and after the recorded ones often do, since what the profiler frees spares the latter.
"""

import mmap
import statistics
import time
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

FRESH_PAGES: Final = 2048  # that the loop writes
LOOP_DOUBT, MOST_OF_LOOP = 0.5, 3.0
"""How far a fault's price in a job is believed to lie from the loop's, and how far at most: in a
ResNet-20 it is 1.2 to 1.4 times. Work that comes with pages, of longer samples, is no fault's."""
LEAST_STEPS: Final = 3  # that tell a slope and its doubt


def fault_cost_ns(faults: Sequence[int], cpu_ns: Sequence[int], loop_ns: float) -> float:
    """Of a job whose plain steps had so many, and took so long: by how much more CPU time those
    take that have more of them, and by what a loop tells, each weighed by how sure it is."""
    if len(faults) < LEAST_STEPS or min(faults) == max(faults):
        return loop_ns
    apart, took = (np.array(each) - np.mean(each) for each in (faults, cpu_ns))
    square = float(apart @ apart)
    slope = float(apart @ took) / square
    left = took - slope * apart
    doubt = float(left @ left) / (len(faults) - 2) / square
    believed = (LOOP_DOUBT * loop_ns) ** 2
    found = (slope * believed + loop_ns * doubt) / max(believed + doubt, 1e-9)
    return min(max(found, loop_ns), MOST_OF_LOOP * loop_ns)


def loop_fault_cost_ns(repeats: int = 9) -> float:
    """What a page costs that is asked for, first written, and given back: over writing it again."""
    return max(0.0, statistics.median(_fresh_pages_ns() for _ in range(repeats)) / FRESH_PAGES)


def _fresh_pages_ns() -> int:
    size = FRESH_PAGES * mmap.PAGESIZE
    begin = time.thread_time_ns()
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    whole = torch.frombuffer(pages, dtype=torch.uint8)
    whole.fill_(1)
    written = time.thread_time_ns()
    whole.fill_(2)
    again = time.thread_time_ns() - written
    del whole
    pages.close()
    return time.thread_time_ns() - begin - 2 * again
