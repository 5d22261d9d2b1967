"""What a job runs on, for predictions: a cluster that was described, or the recording's own.

A recording's own links are as fast as its collectives were: bytes that each rank sent, over the
time from the last rank's arrival to the end. Wrong where communication was so short that calls,
not bytes, made its time: then plans that send less are predicted to gain what they will not.
"""

import os
from dataclasses import dataclass

import numpy as np

from paceline.cluster import Cluster, Host, Link
from paceline.cluster.files import device
from paceline.cluster.machine import Machine
from paceline.cost.collectives.volume import sent_share
from paceline.graph import Collective, Graph, OpKind
from paceline.graph.graph import Int64
from paceline.predict import Question
from paceline.predict.predicting import typical

DEVICE = "epyc-2c"
"""By whose data sheet new work is priced, such as packing; recorded work keeps its time."""
FOUND = "the recording's own collectives"


@dataclass(frozen=True)
class Where:
    """A cluster and what else predictions take into account; none: times as recorded."""

    cluster: Cluster | None
    question: Question


def as_recorded(graph: Graph) -> Where:
    """The machines that were recorded. Ranks of one host share its cores."""
    step = typical(graph, elsewhere=True)
    rate = _bytes_per_s(step)
    if rate is None:
        return Where(None, Question())
    hosts = tuple(Host(f"rank-{rank}", device(DEVICE)) for rank in range(graph.world_size))
    cluster = Cluster(hosts, Link.both_ways(rate, source=FOUND))
    if len({device.host for device in graph.devices}) > 1:
        return Where(cluster, Question())
    cores = float(graph.facts.cores or len(os.sched_getaffinity(0)))
    return Where(cluster, Question(Machine(cores, cpu_ns_per_byte=0.0, turn_ns=0.0)))


def _bytes_per_s(graph: Graph) -> float | None:
    """Each rank's rate while it communicates; None where none does."""
    talks = _collectives(graph)
    taken_ns = int(graph.ops.dur_ns[talks].sum())
    sent = sum(
        float(graph.ops.size_bytes[op])
        * sent_share(
            Collective(int(graph.ops.collective[op])),
            len(graph.groups[int(graph.ops.group[op])].ranks),
        )
        for op in talks.tolist()
    )
    return sent / taken_ns * 1e9 if taken_ns > 0 and sent > 0 else None


def _collectives(graph: Graph) -> Int64:
    ops = graph.ops
    found: Int64 = np.flatnonzero((ops.kind == OpKind.COLLECTIVE) & (ops.group >= 0))
    return found
