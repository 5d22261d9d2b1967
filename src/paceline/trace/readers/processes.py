"""Kineto files that several processes' traces were merged into: one part for each process.

A device is a process's own where most kernels on it have the number of an earlier call of that
process and none that of a later one, if that holds of no other process, or the others have theirs.
Numbers of calls are alike in all ranks of one job, so this does not always tell; then the file is
refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.errors import TraceError
from paceline.trace.readers.kineto import ON_DEVICE
from paceline.trace.readers.rawevents import TEXT_BASE, Arrows, Int64, MemoryMarks, RawEvents
from paceline.trace.readers.repeated import rows_of, taken
from paceline.trace.trace import Category

_MOST: Final = 0.5
"""The first kernels of a recording may have been launched before it; so were a fifth of those of a
step of a recommendation model that was recorded alone."""
_DISTINCT: Final = 0.75
"""Where two traces are one, each number of a call is there twice; a few may be by chance."""
_INSTEAD: Final = (
    "Import the ranks' own files, as their profilers wrote them: paceline import rank-0.json "
    "rank-1.json -o RUN"
)


def by_process(source: str, raw: RawEvents, category: NDArray[np.int16]) -> list[RawEvents]:
    """The events of each process that ran operators, in order of their devices."""
    _require_single_calls(source, raw, category)
    pids = np.unique(raw.ranges.pid[category == Category.CPU_OP])
    if len(pids) < 2:
        return [raw]
    on_device = np.isin(category, ON_DEVICE)
    owned = (
        _owned(raw, category, pids) if on_device.any() else {pid: [pid] for pid in pids.tolist()}
    )
    lost = [pid for pid in pids.tolist() if pid not in owned]
    if lost:
        raise TraceError(
            f"{source} holds {len(pids)} processes ({_listed(raw, pids.tolist())}), and it is not "
            f"told which kernels are those of {_listed(raw, lost)}: on each device more than one "
            f"of the processes may have launched them, or none. {_INSTEAD}"
        )
    order = sorted(owned, key=lambda pid: min(owned[pid]))
    return [_part(raw, on_device, pid, owned[pid]) for pid in order]


def _require_single_calls(source: str, raw: RawEvents, category: NDArray[np.int16]) -> None:
    """Two processes of one number, as in containers: their calls have the same numbers."""
    calls = (category == Category.RUNTIME) & (raw.ranges.correlation > 0)
    named = (raw.ranges.pid[calls] << 40) + raw.ranges.correlation[calls]
    if len(np.unique(named)) < _DISTINCT * len(named):
        raise TraceError(
            f"{source} holds most of its {len(named)} driver calls under numbers that others have "
            f"too: traces of processes of the same number (pid) were merged. {_INSTEAD}"
        )


def _owned(raw: RawEvents, category: NDArray[np.int16], pids: Int64) -> Mapping[int, list[int]]:
    """Devices by the process that launched what ran on them; those without any are left out."""
    on_device = np.isin(category, ON_DEVICE)
    fits: dict[int, set[int]] = {}
    for device in np.unique(raw.ranges.pid[on_device]).tolist():
        work = np.flatnonzero(on_device & (raw.ranges.pid == device))
        fits[device] = {pid for pid in pids.tolist() if _launched(raw, category, work, pid)}
    if len(fits) == len(pids):
        fits = _one_each(fits)
    owned: dict[int, list[int]] = {}
    for device, processes in fits.items():
        if len(processes) == 1:
            owned.setdefault(next(iter(processes)), []).append(device)
    return owned


def _one_each(fits: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """Of as many devices as processes each has one: what must be one's is no other's."""
    left = dict(fits)
    for _ in fits:
        taken_by = {pid: d for d, pids in left.items() if len(pids) == 1 for pid in pids}
        left = {
            device: {pid for pid in pids if taken_by.get(pid, device) == device}
            for device, pids in left.items()
        }
    return left


def _launched(raw: RawEvents, category: NDArray[np.int16], work: Int64, pid: int) -> bool:
    """Whether the process's calls may have launched this work."""
    ranges = raw.ranges
    mine = (category == Category.RUNTIME) & (ranges.pid == pid) & (ranges.correlation > 0)
    calls = np.flatnonzero(mine)
    if not len(calls):
        return False
    calls = calls[np.argsort(ranges.correlation[calls], kind="stable")]
    numbers, asked = ranges.correlation[calls], ranges.correlation[work]
    at = np.minimum(np.searchsorted(numbers, asked), len(calls) - 1)
    found = numbers[at] == asked
    late = found & (ranges.start_ns[calls[at]] > ranges.start_ns[work])
    return bool(found.mean() >= _MOST and not late.any())


def _part(raw: RawEvents, on_device: NDArray[np.bool_], pid: int, devices: list[int]) -> RawEvents:
    mine = np.where(on_device, np.isin(raw.ranges.pid, devices), raw.ranges.pid == pid)
    arrows: Arrows = rows_of(raw.arrows, raw.arrows.pid == pid)
    memory: MemoryMarks = rows_of(raw.memory, raw.memory.pid == pid)
    return replace(taken(raw, mine), arrows=arrows, memory=memory)


def _listed(raw: RawEvents, pids: Sequence[int]) -> str:
    return ", ".join(raw.names[TEXT_BASE - p] if p <= TEXT_BASE else str(p) for p in pids)
