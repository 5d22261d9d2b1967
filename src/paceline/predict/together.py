"""`together`: many changed jobs priced and replayed as one graph, in which they stand side by side.

Each runs as it would alone, to the nanosecond. Only jobs of which none waits for another can stand
so: not those that share cores or links, nor steps that run into one another. Operators of GPUs are
forecast many at a time, so those jobs are left alone too, for rounding's sake.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cluster import Cluster
from paceline.graph import NONE, UNPRICED, Axis, DeviceKind, Discipline, Graph, OpKind
from paceline.graph.condense import repeated_alone
from paceline.graph.graph import Int64
from paceline.graph.membership import of_kinds
from paceline.graph.one_lane import on_one_lane
from paceline.graph.side_by_side import side_by_side
from paceline.predict.candidates import Begun
from paceline.predict.predicting import as_recorded, on_cluster
from paceline.predict.prediction import Question
from paceline.replay import Timeline, replay
from paceline.strategies import Strategy, transformed

_MESSAGES = of_kinds((OpKind.SEND, OpKind.RECV))


@dataclass(frozen=True, eq=False)
class Together:
    """Several jobs, replayed as one."""

    jobs: tuple[Graph, ...]  # each alone, before it was repeated or changed with the others
    timeline: Timeline
    of: Int64  # by op of the timeline: which of the jobs


@dataclass(frozen=True)
class Sort:
    """Jobs of one sort can stand together."""

    times: int  # that a job stands in a row
    period: int
    workers: int
    queues: bool  # whether all lanes serve in the order of ids, which is replayed faster
    siblings: tuple[tuple[Axis, tuple[int, ...]], ...]
    rest: tuple[Strategy, ...] = ()  # changes that are yet to be made, to all of them at once
    parameters: int = 0  # where there are any: what they look at, by identity


def stand_apart(cluster: Cluster | None, question: Question) -> bool:
    """Whether jobs of this question have nothing in common but their prices."""
    if question.machine is not None or question.shaped_links or question.calibration is not None:
        return False
    hosts = cluster.hosts if cluster is not None else ()
    return all(host.device.kind is DeviceKind.CPU for host in hosts)


def sort_of(begun: Begun, cluster: Cluster | None) -> Sort | None:
    """None for a job that is replayed alone."""
    job = begun.graph
    facts, kind = job.facts, job.ops.kind
    if facts.steps_overlap or _MESSAGES[kind].any():
        return None
    if cluster is None and (job.ops.dur_ns == UNPRICED).any():
        return None
    if begun.rest and ((kind == OpKind.COLLECTIVE) & (job.ops.instance == NONE)).any():
        return None  # a lone rank's calls stand for those of all, and are told apart by no instance
    queues = not len(job.drains.op) and bool((job.lanes.discipline == Discipline.RECORDED).all())
    told = (facts.period, job.world_size, queues, tuple(facts.siblings.items()))
    return Sort(begun.times, *told, begun.rest, id(facts.parameters) if begun.rest else 0)


def together(
    jobs: Sequence[Graph], sort: Sort, cluster: Cluster | None, question: Question
) -> Together:
    """Jobs of one sort. What one of them cannot do, none can: ask for them one by one then."""
    side = side_by_side(jobs)
    graph = transformed(side.graph, sort.rest)
    times = sort.times if graph.ops.step[0] == graph.ops.step[-1] else 1
    graph = graph if cluster is None else on_one_lane(graph)
    graph, of = side.told_apart(graph)
    at = as_recorded(graph, question) if cluster is None else on_cluster(graph, cluster, question)
    if times == 1:
        return Together(tuple(jobs), at.run(at.prices.dur_ns), of)
    dur_ns = np.tile(at.prices.dur_ns, times)  # a price does not depend on the step
    timeline = replay(repeated_alone(at.graph, times), prices=dur_ns)
    return Together(tuple(jobs), timeline, np.tile(of, times))
