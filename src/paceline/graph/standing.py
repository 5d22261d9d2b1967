"""`standing`: one recorded rank of a data-parallel job, as the only worker of a job of its own.

Replicas do the same work on other samples, so a trace of one of them tells what all do. Made into
a job of one worker, it can be given as many replicas as are wanted.

Wrong where replicas differ (stages, shards, experts: then nothing is changed, and who asks for
replicas is told so), and by what the recorded rank waited for slower ones, which counts as transfer
until its exchanges are priced for a cluster.
"""

from dataclasses import replace

import numpy as np

from paceline.graph.graph import Graph, Group
from paceline.graph.kinds import NONE, Axis

_REPLICAS = (Axis.DATA, Axis.WORLD)


def standing(graph: Graph) -> Graph:
    """The one rank as rank 0 of a world of one; the graph itself where it holds more ranks, or
    where a group of the rank's is no group of replicas."""
    if len(graph.ranks) != 1 or graph.world_size == 1 or not _all_replicas(graph):
        return graph
    facts = replace(
        graph.facts,
        world_size=1,
        memory=tuple(replace(held, rank=0) for held in graph.facts.memory),
        copies_of_one=True,
    )
    return replace(
        graph,
        ops=replace(graph.ops, rank=np.zeros_like(graph.ops.rank)),
        lanes=replace(graph.lanes, rank=np.zeros_like(graph.lanes.rank)),
        groups=tuple(_alone(group) for group in graph.groups),
        facts=facts,
    )


def _all_replicas(graph: Graph) -> bool:
    used = np.unique(graph.ops.group[graph.ops.group != NONE]).tolist()
    axes = {graph.groups[row].axis for row in used}
    return Axis.DATA in axes and axes <= set(_REPLICAS)


def _alone(group: Group) -> Group:
    return replace(group, ranks=(0,))
