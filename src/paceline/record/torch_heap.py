"""A reserve on the heap for what the profiler keeps, made before the steps that count.

Without it every recorded step pays for fresh pages. Events take some of themselves: two thousand in
a transformer of 13,000 ops, a fifth of what recording costs. And they break up the room that the
job's tensors leave and take again: where a name or a block of events was laid into it, the next
tensor of that size finds no room any more, and the heap grows. Two workers under FSDP2 took 12 MB
more in each recorded step for 0.4 MB of events, which made it 50 % longer on a machine whose host
hands out memory when it is first written (10 us a page).

What is taken here is given back at once, except for its last piece, which keeps the heap from
shrinking until `release`.
"""

import ctypes
import os
from typing import Final

from paceline.machine import free_bytes

EVENT_BYTES: Final = 850  # of one event of torch's profiler, as measured
MOST_BYTES: Final = 1 << 30
MOST_OF_FREE: Final = 0.25
"""Of the machine's free memory, for the reserves of all its ranks together."""
_PIECE: Final = 64 * 1024  # less than what the allocator asks the system for directly
_AT_ONCE: Final = 16  # pieces, between two looks at how large the heap is


class _HeapInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`, of which the first field is looked at."""

    _fields_ = [("arena", ctypes.c_size_t), ("others", ctypes.c_size_t * 9)]


def heap_bytes() -> int:
    """How large the heap is, with the holes in it; 0 where the C library does not say."""
    try:
        info = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    info.restype = _HeapInfo
    return int(info().arena)


class HeapReserve:
    """Pages of the heap that have been written, and may be written again without a fault."""

    def __init__(self, events: float, growth_bytes: float = 0.0) -> None:
        """For so many events in all, and until the heap has grown by so much."""
        heap = ctypes.CDLL(None)
        heap.malloc.restype, heap.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        heap.free.restype, heap.free.argtypes = None, [ctypes.c_void_p]
        self._heap, self._last = heap, list[int]()
        most, before = _most_bytes(), heap_bytes()
        pieces = self._taken(int(min(events * EVENT_BYTES, most)) // _PIECE)
        goal = before + min(growth_bytes, most)
        while 0 < heap_bytes() < goal and (more := self._taken(_AT_ONCE)):
            pieces += more
        self._last = pieces[-1:]
        for piece in pieces[:-1]:
            heap.free(piece)

    def _taken(self, count: int) -> list[int]:
        pieces = [piece for _ in range(count) if (piece := self._heap.malloc(_PIECE))]
        for piece in pieces:
            ctypes.memset(piece, 0, _PIECE)
        return pieces

    def release(self) -> None:
        """The heap may shrink again."""
        for piece in self._last:
            self._heap.free(piece)
        self._last = []


def _most_bytes() -> float:
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return min(MOST_BYTES, MOST_OF_FREE * free_bytes() / ranks)
