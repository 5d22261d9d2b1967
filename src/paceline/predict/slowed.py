"""What work and communication that run together lose by it, in the recording and after a change.

Kernels that ran beside communication were recorded with what that cost them. Where the same kernels
also ran alone (`replay.beside`), all are brought to what they take alone, and replay slows whatever
overlaps: after a change of buckets, links or workers other kernels do. The unchanged step stays as
it was recorded.

How much work of processors and communication slow each other a calibration tells: what was recorded
is brought to what it takes alone in the same way.

Wrong where kernels of one name differ in what they do (traces without shapes), and where another
link or device makes communication take more or less of the memory's rate than it did here. What
communication loses is not looked at: its price is that of a whole link.
"""

from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from paceline.cost.ported import kernel_rows
from paceline.graph import NONE, Basis, DeviceKind, Graph, LaneKind, OpKind
from paceline.graph.graph import Bool
from paceline.predict.prediction import Question
from paceline.replay import Contention, Slowdown, replay
from paceline.replay.beside import Float, beside, covered_ns
from paceline.replay.contention import COMMUNICATES, COMPUTES, FULL, sorts

FEWEST: Final = 10
"""Kernels that must have run beside communication, with the same ones alone, to be believed."""
MOST: Final = 3.0
"""Kernels that take longer than this did something else."""

_shown: WeakKeyDictionary[Graph, float] = WeakKeyDictionary()
"""Remembered as long as the recording."""


def relieved(step: Graph, recording: Graph, question: Question) -> Graph:
    """The step with its ops as long as they take alone, and by how much communication beside them
    slows kernels among its facts; itself where nothing tells it."""
    if not _asked(question):
        return step
    kernels, processors = Slowdown(compute=slowdown_of(recording)), _calibrated(question)
    if kernels == processors == Slowdown():
        return step
    lost = _lost_ns(step, kernels, processors)
    dur_ns = step.ops.dur_ns - np.rint(_as_in_the_last(step, lost)).astype(np.int64)
    told = kernels.compute if kernels.compute > 1 else step.facts.slowed_beside
    facts = replace(step.facts, slowed_beside=told)
    return replace(step, ops=replace(step.ops, dur_ns=dur_ns), facts=facts)


def _lost_ns(step: Graph, kernels: Slowdown, processors: Slowdown) -> Float:
    """Of each recorded op: by how much longer it took than alone."""
    lost = np.zeros(len(step))
    if (step.ops.dur_ns < 0).any():
        return lost
    timeline, sort = replay(step), sorts(step)
    on_hosts = ~_on_gpus(step) & np.isin(step.ops.basis, (Basis.RECORDED, Basis.WALL))
    for slowdown, there in ((kernels, _on_devices(step)), (processors, on_hosts)):
        for mine, by, factor in (
            (COMPUTES, COMMUNICATES, slowdown.compute),
            (COMMUNICATES, COMPUTES, slowdown.communication),
        ):
            rows = np.flatnonzero(there & (sort == mine))
            if factor > 1:
                lost[rows] = covered_ns(timeline, rows, by) * (1 - round(FULL / factor) / FULL)
    return _of_slowest_member(step, lost)


def _of_slowest_member(step: Graph, lost: Float) -> Float:
    """A collective or message went at the pace of its slowest member."""
    joined = step.ops.instance != NONE
    most = np.zeros(int(step.ops.instance.max(initial=NONE)) + 1)
    np.maximum.at(most, step.ops.instance[joined], lost[joined])
    found = lost.copy()
    found[joined] = most[step.ops.instance[joined]]
    return np.minimum(found, np.maximum(0, step.ops.dur_ns))


def contention_of(graph: Graph, question: Question) -> Contention | None:
    """On GPUs what the step's facts tell, on processors what the calibration does; None where
    nothing tells of any slow-down."""
    kernels = Slowdown(compute=max(1.0, graph.facts.slowed_beside))
    processors = _calibrated(question)
    if kernels == processors == Slowdown():
        return None
    kinds = [device.kind for device in graph.devices]
    return Contention(tuple(kernels if kind is DeviceKind.GPU else processors for kind in kinds))


def _calibrated(question: Question) -> Slowdown:
    """Measured on processors, it tells nothing of GPUs."""
    made = question.calibration
    if made is None or made.overlap is None:
        return Slowdown()
    return Slowdown(made.overlap.compute, made.overlap.communication)


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
    """Shared cores slow what overlaps by themselves, and draws know nothing of it."""
    return not (question.draws or question.machine is not None)


def _on_devices(graph: Graph) -> Bool:
    streams: Bool = graph.lanes.kind[graph.ops.lane] == LaneKind.STREAM
    return streams & _on_gpus(graph)


def _on_gpus(graph: Graph) -> Bool:
    kinds = np.array([device.kind is DeviceKind.GPU for device in graph.devices], np.bool_)
    found: Bool = kinds[graph.lanes.device[graph.ops.lane]]
    return found
