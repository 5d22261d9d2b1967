"""A distant plan's replayed price, and the cluster with its hosts in the plan's order."""

from collections.abc import Sequence
from dataclasses import replace

from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.cluster.network import Network
from paceline.cluster.topologies.custom import Custom
from paceline.graph import LaneKind
from paceline.place.distant.planning import DistantPlan
from paceline.place.pipeline import WHOLE, Borders, LayerCost, PipelinePlan, PlanError, Wires, draw
from paceline.predict import Prediction, Question, predict
from paceline.runtime.stages import PipelineSchedule, Shape

BATCHES = 6


def priced_in_lab(
    plan: DistantPlan,
    stages: Sequence[LayerCost],
    cluster: Cluster,
    machine: Machine,
    borders: Borders = WHOLE,
) -> Prediction:
    """Its step where stage i is a worker of the lab of `reordered(cluster, plan.order)`; `borders`
    tells what packing takes where a border is compressed."""
    placed = reordered(cluster, plan.order)
    rate = min(link.bytes_per_s for link in Network(placed).links)
    wires = Wires(
        rate,
        rate,
        round(machine.message_ns),
        asked=True,
        send_ns_per_byte=machine.send_ns_per_byte,
        shares=plan.shares,
        borders=borders,
    )
    shape = Shape(len(stages), plan.microbatches)
    drawn = PipelinePlan(PipelineSchedule.ONE_F_ONE_B, shape, plan.microbatch)
    graph = draw(drawn, stages, wires, BATCHES, lane=LaneKind.THREAD)
    return predict(graph, (), placed, Question(machine, shaped_links=True))


def reordered(cluster: Cluster, order: Sequence[int]) -> Cluster:
    """The same machines and cables, numbered anew: worker i is the worker `order[i]` of before."""
    if sorted(order) != list(range(cluster.workers)) or cluster.workers != len(cluster.hosts):
        raise PlanError(
            f"an order of {len(order)} stages for {len(cluster.hosts)} hosts with "
            f"{cluster.workers} workers; give each host one worker and one stage"
        )
    hosts = tuple(cluster.hosts[old] for old in order)
    topology = cluster.topology
    if isinstance(topology, Custom):
        new = {old: place for place, old in enumerate(order)}
        edges = tuple(
            (new.get(a, a), new.get(b, b), ab, ba, ns) for a, b, ab, ba, ns in topology.edges
        )
        topology = replace(topology, edges=edges)
    return replace(cluster, hosts=hosts, topology=topology)
