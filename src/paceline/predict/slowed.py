"""What kernels lose beside communication, as the recording itself shows it.

Kernels that ran beside communication were recorded with what that cost them. Where the same kernels
also ran alone (`replay.beside`), all are brought to what they take alone, and replay slows whatever
overlaps: after a change of buckets, links or workers other kernels do. The unchanged step stays as
it was recorded.

Wrong where kernels of one name differ in what they do (traces without shapes), and where another
link or device makes communication take more or less of the memory's rate than it did here. What
communication loses is not looked at: its price is that of a whole link.
"""

from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from paceline.cost.ported import kernel_rows
from paceline.graph import DeviceKind, Graph, LaneKind, OpKind
from paceline.graph.graph import Bool
from paceline.predict.prediction import Question
from paceline.replay import Contention, Slowdown, replay
from paceline.replay.beside import Float, beside, covered_ns
from paceline.replay.contention import FULL

FEWEST: Final = 10
"""Kernels that must have run beside communication, with the same ones alone, to be believed."""
MOST: Final = 3.0
"""Kernels that take longer than this did something else."""

_shown: WeakKeyDictionary[Graph, float] = WeakKeyDictionary()
"""Remembered as long as the recording."""


def relieved(step: Graph, recording: Graph, question: Question) -> Graph:
    """The step with kernels as long as they take alone, and by how much communication beside them
    slows them among its facts; itself where the recording does not show it."""
    if not _asked(question):
        return step
    factor = slowdown_of(recording)
    if factor <= 1:
        return step
    rows = np.flatnonzero(_on_devices(step) & (step.ops.kind == OpKind.COMPUTE))
    lost = np.zeros(len(step))
    lost[rows] = covered_ns(replay(step), rows) * (1 - round(FULL / factor) / FULL)
    dur_ns = step.ops.dur_ns - np.rint(_as_in_the_last(step, lost)).astype(np.int64)
    facts = replace(step.facts, slowed_beside=factor)
    return replace(step, ops=replace(step.ops, dur_ns=dur_ns), facts=facts)


def contention_of(graph: Graph) -> Contention | None:
    """What the step's facts tell; None where they tell nothing."""
    factor = graph.facts.slowed_beside
    if factor <= 1:
        return None
    slowed, as_it_is = Slowdown(compute=factor), Slowdown()
    kinds = [device.kind for device in graph.devices]
    return Contention(tuple(slowed if kind is DeviceKind.GPU else as_it_is for kind in kinds))


def slowdown_of(recording: Graph) -> float:
    """How many times as long kernels take beside communication; 1 where it does not show."""
    if recording not in _shown:
        _shown[recording] = _slowdown_of(recording)
    return _shown[recording]


def _slowdown_of(recording: Graph) -> float:
    talks = _on_devices(recording) & np.isin(recording.ops.kind, (OpKind.COLLECTIVE, *_MESSAGES))
    if not talks.any() or (recording.ops.dur_ns < 0).any():
        return 1.0
    found = beside(replay(recording), kernel_rows(recording))
    believed = found.kernels >= FEWEST and 1 < found.factor <= MOST
    return found.factor if believed else 1.0


_MESSAGES: Final = (OpKind.SEND, OpKind.RECV, OpKind.TRANSFER)


def _as_in_the_last(graph: Graph, values: Float) -> Float:
    """Of steps that are copies of one, the last one's values for all: it runs as later steps do."""
    _, counts = np.unique(graph.ops.step, return_counts=True)
    if len(set(counts.tolist())) != 1:
        return values
    copies = np.argsort(graph.ops.step, kind="stable").reshape(len(counts), -1)
    found = values.copy()
    found[copies] = values[copies[-1]]
    return found


def _asked(question: Question) -> bool:
    """Shared cores slow what overlaps by themselves, a calibration says by how much, and draws know
    nothing of it."""
    calibrated = question.calibration is not None and question.calibration.overlap is not None
    return not (calibrated or question.draws or question.machine is not None)


def _on_devices(graph: Graph) -> Bool:
    kinds = np.array([device.kind is DeviceKind.GPU for device in graph.devices], np.bool_)
    lane = graph.ops.lane
    streams: Bool = graph.lanes.kind[lane] == LaneKind.STREAM
    return streams & kinds[graph.lanes.device[lane]]
