"""Loads of an assignment of classes to devices, kept up to date while classes move.

Devices 0 .. k - 1 are accelerators, the CPUs follow. An assignment is one device a class.
"""

from collections.abc import Sequence

import numpy as np

from paceline.place.operators.classes import Classes, parts_of
from paceline.place.operators.split import TOLERANCE, PlacedNodes, Split


class Loads:
    """Load and memory of every device; `move` costs a class's hyperedges, not the graph's."""

    def __init__(self, classes: Classes, assignment: Sequence[int]) -> None:
        self.classes = classes
        self.accelerators = classes.accelerators
        self.devices = classes.accelerators + classes.cpus
        self.at = list(assignment)
        self.load = [0.0] * self.devices
        self.size = [0.0] * self.devices
        self._time = (classes.accelerator_time.tolist(), classes.cpu_time.tolist())
        self._sizes = classes.size.tolist()
        self._supported = classes.supported.tolist()
        self._edges = classes.hyperedges()
        self._touch: list[list[int]] = [[] for _ in range(len(classes))]
        self._count = [[0] * self.devices for _ in self._edges]
        for c, device in enumerate(self.at):
            self.load[device] += self._time[device >= self.accelerators][c]
            self.size[device] += self._sizes[c]
        for e, (pins, weight) in enumerate(self._edges):
            for c in pins:
                self._touch[c].append(e)
                self._count[e][self.at[c]] += 1
            for device in range(self.accelerators):
                if 0 < self._count[e][device] < len(pins):
                    self.load[device] += weight

    def may_hold(self, c: int, device: int) -> bool:
        """Could class `c` join `device`?"""
        if device >= self.accelerators:
            return True
        room = self.classes.memory * (1 + TOLERANCE)
        return bool(self._supported[c]) and self.size[device] + self._sizes[c] <= room

    def valid(self) -> bool:
        """Does every accelerator keep its memory and its support?"""
        room = self.classes.memory * (1 + TOLERANCE)
        return all(size <= room for size in self.size[: self.accelerators]) and all(
            device >= self.accelerators or self._supported[c] for c, device in enumerate(self.at)
        )

    def move(self, c: int, device: int) -> None:
        """Class `c` leaves its device for another."""
        old = self.at[c]
        for where, sign in ((old, -1), (device, 1)):
            self.load[where] += sign * self._time[where >= self.accelerators][c]
            self.size[where] += sign * self._sizes[c]
        for e in self._touch[c]:
            pins, weight = self._edges[e]
            self._recount(e, old, -1, len(pins), weight)
            self._recount(e, device, 1, len(pins), weight)
        self.at[c] = device

    def _recount(self, edge: int, device: int, change: int, pins: int, weight: float) -> None:
        before = self._count[edge][device]
        after = self._count[edge][device] = before + change
        if device < self.accelerators:
            self.load[device] += weight * ((0 < after < pins) - (0 < before < pins))


def split_of(classes: Classes, assignment: Sequence[int]) -> Split:
    """The split that an assignment means."""
    at = np.asarray(assignment)
    used = np.unique(at).tolist()
    members = [parts_of(classes, np.flatnonzero(at == device)) for device in used]
    return Split(tuple(PlacedNodes(d >= classes.accelerators, m) for d, m in zip(used, members)))


def assignment_of(classes: Classes, split: Split) -> list[int]:
    """The assignment behind a split that keeps classes whole."""
    devices = {True: iter(range(classes.accelerators, classes.accelerators + classes.cpus)),
               False: iter(range(classes.accelerators))}  # fmt: skip
    at = np.zeros(len(classes), np.int64)
    for part in split.parts:
        at[classes.of_node[part.rows]] = next(devices[part.on_cpu])
    return [int(device) for device in at]
