"""Recorded work as long as it takes in a row, with no messages beside it.

What a thread ran, by its own clock, is more than its work: behind a rest the processor is slow, and
the kernel handles packets on whatever core they come to, in the time of the thread that is there.
On another network rests and packets are others, so both are taken out of a recording, by when the
recorded step replays to have had them; the replay of the changed step has its own. Wrong where the
recording is of another machine than the one whose rests and packets were measured.
"""

import numpy as np
from numpy.typing import NDArray

from paceline.cluster.machine import Machine
from paceline.graph import UNPRICED, Graph, LaneKind
from paceline.graph.graph import Bool
from paceline.graph.scaled import scaled, works
from paceline.predict.rests import after_rests
from paceline.predict.sharing import sent_bytes
from paceline.replay import Timeline, replay
from paceline.replay.hosts import MOST_LOAD, SharedHosts

Float64 = NDArray[np.float64]


def undisturbed(graph: Graph, machine: Machine | None) -> Graph:
    """The step itself where nothing is known of its cores, or such work costs nothing."""
    if machine is None or not _recorded_on_threads(graph):
        return graph
    if not (machine.rests.cost or machine.interrupt_ns_per_byte):
        return graph
    hosts = SharedHosts.one_machine(graph.world_size, graph.facts.cores)
    timeline = replay(graph, hosts=hosts)
    late = after_rests(timeline, machine.rest_ns, machine.warm_ns)
    own = 1 - interrupted(timeline, machine.interrupt_ns_per_byte / graph.facts.cores)
    return scaled(graph, _on_threads(graph), np.where(late, own / machine.rested, own))


def interrupted(timeline: Timeline, ns_per_byte: float) -> Float64:
    """By op, the share of its core that messages under way took meanwhile, at so many ns of each
    core for a byte."""
    sent = sent_bytes(timeline.graph)
    talks = np.flatnonzero((sent > 0) & (timeline.end_ns > timeline.start_ns))
    begin, end = timeline.start_ns[talks], timeline.end_ns[talks]
    rate = sent[talks] * ns_per_byte / (end - begin)
    order = np.argsort(np.concatenate([begin, end]), kind="stable")
    at = np.concatenate([[0], np.concatenate([begin, end])[order]])
    share = np.concatenate([[0.0], np.cumsum(np.concatenate([rate, -rate])[order])])
    taken = np.concatenate([[0.0], np.cumsum(share[:-1] * np.diff(at))])
    lengths = np.maximum(timeline.end_ns - timeline.start_ns, 1)
    during = np.interp(timeline.end_ns, at, taken) - np.interp(timeline.start_ns, at, taken)
    return np.clip(during / lengths, 0.0, MOST_LOAD)


def _on_threads(graph: Graph) -> Bool:
    found: Bool = works(graph) & (graph.lanes.kind[graph.ops.lane] == LaneKind.THREAD)
    return found


def _recorded_on_threads(graph: Graph) -> bool:
    """On a host whose cores are known, every duration of it."""
    streams = (graph.lanes.kind == LaneKind.STREAM).any()
    return bool(graph.facts.cores and not streams and (graph.ops.dur_ns != UNPRICED).all())
