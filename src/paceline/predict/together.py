"""`together`: many changed jobs priced and replayed as one graph, in which they stand side by side.

Each runs as it would alone, to the nanosecond. Only jobs of which none waits for another can stand
so: not those that share cores or links, nor steps that run into one another. Operators of GPUs are
forecast many at a time, so those jobs are left alone too, for rounding's sake.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.cluster import Cluster
from paceline.graph import NONE, UNPRICED, Axis, DeviceKind, Discipline, Graph, OpKind
from paceline.graph.condense import repeated_alone
from paceline.graph.graph import Int64
from paceline.graph.membership import of_kinds
from paceline.graph.one_lane import on_one_lane
from paceline.graph.side_by_side import SideBySide, joined, side_by_side, width_of
from paceline.predict.candidates import Begun
from paceline.predict.predicting import as_recorded, on_cluster
from paceline.predict.prediction import Question
from paceline.replay import Timeline, replay
from paceline.strategies import Strategy

_MESSAGES = of_kinds((OpKind.SEND, OpKind.RECV))


@dataclass(frozen=True, eq=False)
class Together:
    """Several jobs, replayed as one."""

    jobs: tuple[Graph, ...]  # each alone, before it was repeated or changed with the others
    rows: tuple[int, ...]  # of each: which it is of those that were asked for
    timeline: Timeline
    of: Int64  # by op of the timeline: which of the jobs


@dataclass(frozen=True)
class Sort:
    """Jobs of one sort can stand together."""

    period: int
    workers: int
    siblings: tuple[tuple[Axis, tuple[int, ...]], ...]


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
    return Sort(facts.period, job.world_size, tuple(facts.siblings.items()))


def together(
    jobs: Sequence[Begun], cluster: Cluster | None, question: Question
) -> Iterator[Together]:
    """Jobs of one sort, as few at a time as there are forms of them. What one of them cannot do,
    none can: ask for them one by one then."""
    asked = _Asked(jobs, width_of([job.graph for job in jobs]))
    for stack in _stacks(asked, range(len(jobs)), 0):
        graph, of = _on_lanes(stack, cluster).told_apart()
        at = (
            as_recorded(graph, question)
            if cluster is None
            else on_cluster(graph, cluster, question)
        )
        graphs = tuple(jobs[row].graph for row in stack.rows)
        if stack.times == 1:
            yield Together(graphs, stack.rows, at.run(at.prices.dur_ns), of)
            continue
        dur_ns = np.tile(at.prices.dur_ns, stack.times)  # a price does not depend on the step
        timeline = replay(repeated_alone(at.graph, stack.times), prices=dur_ns)
        yield Together(graphs, stack.rows, timeline, np.tile(of, stack.times))


def _on_lanes(stack: "_Stack", cluster: Cluster | None) -> SideBySide:
    side = stack.side
    return side if cluster is None else side.changed(on_one_lane(side.graph))


@dataclass(frozen=True, eq=False)
class _Asked:
    jobs: Sequence[Begun]
    width: int


@dataclass(frozen=True, eq=False)
class _Stack:
    """Jobs that stand side by side, and which of those that were asked for they are."""

    side: SideBySide
    rows: tuple[int, ...]
    times: int  # that they stand in a row
    queues: bool  # whether all lanes serve in the order of ids, which is replayed faster

    def after(self, change: Strategy) -> "_Stack":
        graph = change.transform(self.side.graph)
        times = self.times if graph.ops.step[0] == graph.ops.step[-1] else 1
        return replace(self, side=self.side.changed(graph), times=times, queues=_queues(graph))


def _stacks(asked: _Asked, rows: Sequence[int], done: int) -> list[_Stack]:
    """These jobs after all changes but the last `done`, in which they are alike. A change is made
    once to all jobs whose plans are alike from there on."""
    by_next: dict[tuple[Strategy, int] | None, list[int]] = {}
    for row in rows:
        by_next.setdefault(_next(asked.jobs[row], done), []).append(row)
    found: list[_Stack] = []
    for change, some in by_next.items():
        if change is None:
            found += _alone(asked, some)
        else:
            found += [stack.after(change[0]) for stack in _stacks(asked, some, done + 1)]
    return list(_joined(found))


def _next(job: Begun, done: int) -> tuple[Strategy, int] | None:
    """The last change of a job but for so many, and what it looks at, by identity."""
    if len(job.rest) <= done:
        return None
    return job.rest[-1 - done], id(job.graph.facts.parameters)


def _alone(asked: _Asked, rows: Sequence[int]) -> Iterator[_Stack]:
    for row in rows:
        job = asked.jobs[row]
        side = side_by_side([job.graph], asked.width)
        yield _Stack(side, (row,), job.times, _queues(job.graph))


def _joined(stacks: Sequence[_Stack]) -> Iterator[_Stack]:
    """Those of one form as one."""
    by_form: dict[tuple[int, bool], list[_Stack]] = {}
    for stack in stacks:
        by_form.setdefault((stack.times, stack.queues), []).append(stack)
    for some in by_form.values():
        side = joined([stack.side for stack in some])
        yield replace(some[0], side=side, rows=tuple(row for stack in some for row in stack.rows))


def _queues(graph: Graph) -> bool:
    return not len(graph.drains.op) and bool((graph.lanes.discipline == Discipline.RECORDED).all())
