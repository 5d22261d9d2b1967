"""`LaneIndex`: numbers the threads and streams of one trace as they are met."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from paceline.graph import NONE, LaneKind
from paceline.trace.trace import TraceLane


class LaneIndex:
    """(process or device, thread or stream) -> row of `Trace.lanes`."""

    def __init__(self, names: dict[tuple[int, int], str] | None = None) -> None:
        self._names = names or {}
        self._row: dict[tuple[int, int, bool], int] = {}
        self._lanes: list[TraceLane] = []

    def of(
        self, owner: NDArray[np.int64], number: NDArray[np.int64], kind: LaneKind
    ) -> NDArray[np.int32]:
        """The lane of each (owner, number) pair; new lanes are added in order of number."""
        if not len(owner):
            return np.zeros(0, np.int32)
        pairs = np.stack([owner, number])
        if (pairs == pairs[:, :1]).all():
            return np.full(len(owner), self.one(int(owner[0]), int(number[0]), kind), np.int32)
        distinct, inverse = np.unique(pairs, axis=1, return_inverse=True)
        rows = [self.one(int(a), int(b), kind) for a, b in distinct.T]
        return np.array(rows, np.int32)[inverse.reshape(-1)]

    def one(self, owner: int, number: int, kind: LaneKind) -> int:
        on_device = kind is LaneKind.STREAM
        key = (owner, number, on_device)
        if key not in self._row:
            self._row[key] = len(self._lanes)
            name = self._names.get((owner, number)) or _plain_name(number, on_device)
            device = owner if on_device else NONE
            self._lanes.append(TraceLane(name.strip(), kind, device, number))
        return self._row[key]

    def stream(self, device: int, number: int) -> int:
        """The lane of a stream; NONE where the trace shows no work on it."""
        return self._row.get((device, number, True), NONE)

    def streams(self, device: int) -> list[int]:
        return [row for (owner, _, gpu), row in self._row.items() if gpu and owner == device]

    def mark_communication(self, lanes: NDArray[np.int32]) -> None:
        """These threads do nothing but move data: a communication library's own."""
        for row in lanes.tolist():
            self._lanes[row] = replace(self._lanes[row], kind=LaneKind.COMM_THREAD)

    def lanes(self) -> tuple[TraceLane, ...]:
        return tuple(self._lanes)


def _plain_name(number: int, on_device: bool) -> str:
    return f"stream {number}" if on_device else f"thread {number}"
