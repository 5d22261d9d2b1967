"""Memory over time: each device's curve from what ops allocate and free, and its peak."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from paceline.graph.graph import Int64

if TYPE_CHECKING:
    from paceline.replay.timeline import Timeline


@dataclass(frozen=True, eq=False)
class MemoryCurve:
    """Bytes held on one device after each allocation and free, in the order of time."""

    device: int
    time_ns: Int64
    held_bytes: Int64
    op: Int64  # whose allocation or free it was
    delta_bytes: Int64
    category: Int64

    @cached_property
    def peak_bytes(self) -> int:
        return max(0, int(self.held_bytes.max())) if len(self.held_bytes) else 0

    @cached_property
    def peak_ns(self) -> int:
        """When the peak is first reached; 0 where nothing is ever held."""
        return int(self.time_ns[np.argmax(self.held_bytes)]) if self.peak_bytes else 0

    @cached_property
    def alive_at_peak(self) -> Int64:
        """Ops whose allocations are held at the peak.

        A free gives back the latest allocation of its size and category, else the latest of its
        size: frames of a stack, as the backward pass frees what the forward pass keeps.
        """
        if not self.peak_bytes:
            return np.zeros(0, np.int64)
        last = int(np.argmax(self.held_bytes)) + 1
        held: dict[tuple[int, int], list[int]] = {}
        rows = zip(self.op[:last].tolist(), self.delta_bytes.tolist(), self.category.tolist())
        for op, delta, category in rows:
            if delta > 0:
                held.setdefault((delta, category), []).append(op)
            elif stack := _holding(held, -delta, category):
                stack.pop()
        return np.unique(np.array([op for ops in held.values() for op in ops], np.int64))


def memory_curves(timeline: "Timeline") -> tuple[MemoryCurve, ...]:
    """One curve for each device of the graph."""
    time, order = order_of_events(timeline)
    devices = range(len(timeline.graph.devices))
    return tuple(_curve(timeline, device, time, order) for device in devices)


def order_of_events(timeline: "Timeline") -> tuple[Int64, Int64]:
    """When each of the graph's memory events is, and all of them in the order of time."""
    memory = timeline.graph.memory
    start, end = timeline.start_ns[memory.op], timeline.end_ns[memory.op]
    time = np.where(memory.at_end, end, start)
    # At one instant: what ends gives back before what starts takes; ops of no length come last.
    turn = np.where(memory.at_end, np.where(start < end, 0, 2), 1)
    return time, np.lexsort((memory.op, turn, time))


def _curve(timeline: "Timeline", device: int, time: Int64, order: Int64) -> MemoryCurve:
    memory = timeline.graph.memory
    rows = order[memory.device[order] == device]
    return MemoryCurve(
        device,
        time[rows],
        np.cumsum(memory.delta_bytes[rows]),
        memory.op[rows].astype(np.int64),
        memory.delta_bytes[rows],
        memory.category[rows].astype(np.int64),
    )


def _holding(held: dict[tuple[int, int], list[int]], size: int, category: int) -> list[int] | None:
    stack = held.get((size, category))
    if stack:
        return stack
    return next((ops for (other, _), ops in held.items() if other == size and ops), None)
