"""A plan's price twice: by the published formula, and by replaying its graph.

Replayed alone (`price`), on the cores of one machine (`price_on_cores`), or where those workers
talk over a cluster's shaped links, as they do in the lab (`price_in_lab`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.cluster.network import Network
from paceline.cluster.tcp import burst_bytes, least_queue_bytes
from paceline.graph import Graph, LaneKind, OpKind, Phase
from paceline.place.pipeline.draw import draw
from paceline.place.pipeline.formulas import Plan, Wires, memory_bytes, step_ns
from paceline.place.pipeline.profile import LayerCost
from paceline.replay import Shaping, SharedHosts, Timeline, replay, shaped_links

BATCHES = 4
"""Replayed: 2BW never flushes, so its step is the time between updates once the pipe is full."""


REST_NS = 2_000_000
"""A shorter wait is no rest: measured, passes after 2 ms last some 3 % longer, after 10 ms 9 %."""


@dataclass(frozen=True)
class Priced:
    """What a plan costs. Memory is that of the fullest device."""

    plan: Plan
    formula_step_ns: int
    replayed_step_ns: int
    formula_memory_bytes: int
    replayed_memory_bytes: int

    @property
    def formula_per_s(self) -> float:
        """Samples a second."""
        return self.plan.global_batch * 1e9 / self.formula_step_ns

    @property
    def replayed_per_s(self) -> float:
        return self.plan.global_batch * 1e9 / self.replayed_step_ns


def price(plan: Plan, stages: Sequence[LayerCost], wires: Wires) -> Priced:
    """Both prices of a plan whose stages have these costs."""
    timeline = replay(draw(plan, stages, wires, BATCHES))
    return _priced(plan, stages, wires, timeline)


def price_on_cores(
    plan: Plan,
    stages: Sequence[LayerCost],
    wires: Wires,
    machine: Machine,
    batches: int = BATCHES,
) -> Priced:
    """The same where all stages are processes that share the cores of one machine, of which only
    these and what a rest costs matter: messages are those of `wires`."""
    graph = draw(plan, stages, wires, batches, lane=LaneKind.THREAD)
    hosts = SharedHosts.one_machine(len(stages), machine.cores)
    timeline = _with_rests(graph, machine.rested, lambda graph: replay(graph, hosts=hosts))
    return _priced(plan, stages, wires, timeline)


def price_in_lab(
    plan: Plan,
    stages: Sequence[LayerCost],
    cluster: Cluster,
    machine: Machine,
    batches: int = BATCHES,
) -> Priced:
    """The same where every stage is a worker of the lab that this cluster describes."""
    rate = min(link.bytes_per_s for link in Network(cluster).links)
    wires = Wires(
        rate,
        rate,
        round(machine.message_ns),
        asked=True,
        send_ns_per_byte=machine.send_ns_per_byte,
    )
    graph = draw(plan, stages, wires, batches, lane=LaneKind.THREAD)
    hosts = SharedHosts.one_machine(len(stages), machine.cores)
    transfers = shaped_links(graph, cluster, _shaping(cluster, machine))
    timeline = _with_rests(
        graph, machine.rested, lambda graph: replay(graph, transfers=transfers, hosts=hosts)
    )
    return _priced(plan, stages, wires, timeline)


def _shaping(cluster: Cluster, machine: Machine) -> Shaping:
    """The lab's links, and what a message on them takes of the machine."""
    links, share = Network(cluster).links, cluster.transport.efficiency
    segments = cluster.transport.gso_max_segs
    return Shaping(
        machine.cpu_ns_per_byte - machine.send_ns_per_byte,
        tuple(share * burst_bytes(8 * x.bytes_per_s / share, segments) for x in links),
        round(machine.message_ns),
        round(machine.late_ns),
        _window_bytes(min(link.bytes_per_s for link in links), least_queue_bytes(cluster)),
    )


def _window_bytes(bytes_per_s: float, queue_bytes: int) -> float:
    """What TCP keeps of a message in its link's queue: as much as its pace sends in a millisecond
    (the kernel's small queues), at a pace of 1.2 windows a round trip, with a window of what the
    queue holds and a round trip that is the time in the queue. Seen at 200 Mbit/s: 60 to 130 KB."""
    return math.sqrt(1.2 * queue_bytes * bytes_per_s / 1024)


def _with_rests(graph: Graph, rested: float, run: Callable[[Graph], Timeline]) -> Timeline:
    """A first replay shows what comes after a rest, a second one prices it."""
    timeline = run(graph)
    return run(_rested(timeline, rested)) if rested > 1 else timeline


def _rested(timeline: Timeline, factor: float) -> Graph:
    """The graph with work that began after a rest of its lane taking longer."""
    graph, longer = timeline.graph, timeline.graph.ops.dur_ns.copy()
    works = np.flatnonzero((graph.ops.kind == OpKind.COMPUTE) & (longer > 0))
    for lane in np.unique(graph.ops.lane[works]).tolist():
        mine = works[graph.ops.lane[works] == lane]
        rest = timeline.start_ns[mine][1:] - timeline.end_ns[mine][:-1]
        after = mine[1:][rest >= REST_NS]
        longer[after] = np.rint(longer[after] * factor)
    return replace(graph, ops=replace(graph.ops, dur_ns=longer))


def steady_step_ns(timeline: Timeline) -> int:
    """Time between updates from the second batch to the last but one, of stage 0.

    The last batch is left out: without flush it has no forwards of a next batch beside it.
    """
    ops = timeline.graph.ops
    updates = (ops.phase == Phase.UPDATE) & (ops.rank == 0)
    ends = timeline.end_ns[updates][np.argsort(ops.step[updates])]
    return round(float(ends[-2] - ends[0]) / (len(ends) - 2))


def _priced(plan: Plan, stages: Sequence[LayerCost], wires: Wires, timeline: Timeline) -> Priced:
    return Priced(
        plan,
        step_ns(plan, stages, wires),
        steady_step_ns(timeline),
        max(memory_bytes(plan, stages)),
        max(curve.peak_bytes for curve in timeline.memory),
    )
