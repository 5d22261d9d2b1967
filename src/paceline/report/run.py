"""What a recorded run says beyond one step: steps, communication, who came late, clocks.

`summarise_run` computes; `text/run.py` shows. Every field is JSON-able by `dataclasses.asdict`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.graph import Graph, MemoryCategory
from paceline.replay import Timeline
from paceline.replay.communication import GroupShare, Meeting, group_shares, meetings
from paceline.replay.steps import StepTimes, step_times
from paceline.replay.stragglers import Straggler, stragglers


@dataclass(frozen=True)
class Communication:
    """Of all transfer time on all ranks: what computing hid, and what it did not."""

    hidden_ns: int
    exposed_ns: int
    waiting_ns: int


@dataclass(frozen=True)
class RunSummary:
    """All of it."""

    steps: StepTimes
    median_step_ns: float
    spread: float
    communication: Communication
    groups: tuple[GroupShare, ...]  # the costliest first
    stragglers: tuple[Straggler, ...]  # those who were waited for longest first
    collectives: tuple[Meeting, ...]  # in order of time
    memory_by_category: dict[str, int]  # category -> peak bytes, over all devices
    clocks: dict[str, Any]  # rank -> offset, drift, what is left open
    notes: tuple[str, ...]  # what was inferred, repaired or left out


def summarise_run(timeline: Timeline) -> RunSummary:
    found, steps, graph = meetings(timeline), step_times(timeline), timeline.graph
    return RunSummary(
        steps=steps,
        median_step_ns=steps.median_ns,
        spread=steps.spread,
        communication=_communication(timeline),
        groups=group_shares(found),
        stragglers=stragglers(timeline, found),
        collectives=found,
        memory_by_category=_memory(graph),
        clocks=dict(graph.meta.get("clocks", {})),
        notes=tuple(graph.meta.get("notes", ())),
    )


def _communication(timeline: Timeline) -> Communication:
    shares = timeline.breakdown
    return Communication(
        int(shares.overlapped_ns.sum()),
        int(shares.exposed_transfer_ns.sum()),
        int(shares.waiting_ns.sum()),
    )


def _memory(graph: Graph) -> dict[str, int]:
    """The most that each category held, over all devices: as recorded, else as ops tell it."""
    peaks: dict[str, int] = dict(graph.meta.get("memory_peaks", {}))
    if peaks:
        return peaks
    memory, held = graph.memory, dict[str, int]()
    order = np.lexsort((memory.device, memory.category))  # of each, one device after the other
    kind, device = memory.category[order], memory.device[order]
    begins = np.flatnonzero((np.diff(kind, prepend=255) != 0) | (np.diff(device, prepend=-1) != 0))
    holds = np.cumsum(memory.delta_bytes[order])
    before = np.concatenate([[0], holds])[begins]
    peaks_of = np.maximum.reduceat(holds, begins) - before if len(begins) else before
    for category, peak in zip(kind[begins].tolist(), peaks_of.tolist()):
        name = MemoryCategory(category).name.lower()
        held[name] = held.get(name, 0) + max(peak, 0)
    return {name: size for name, size in held.items() if size}
