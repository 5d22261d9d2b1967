"""What of a job decides its step beyond the times: its model, batch and messages."""

from dataclasses import dataclass

import numpy as np

from paceline.graph import COMMUNICATION, NONE
from paceline.graph.graph import Graph


@dataclass(frozen=True)
class Traits:
    """Zero and empty where a run does not tell."""

    workers: int
    batch_bytes: int  # of a rank
    messages: float  # that a rank takes part in, per step
    sent_bytes: float  # in them
    parameters: frozenset[tuple[str, tuple[int, ...]]]


def traits_of(graph: Graph) -> Traits:
    facts, ops = graph.facts, graph.ops
    steps = max(1, len(np.unique(ops.step[ops.step != NONE])))
    first = ops.rank == min(graph.ranks, default=0)
    talks = np.isin(ops.kind, COMMUNICATION) & first
    return Traits(
        workers=graph.world_size,
        batch_bytes=round(float(np.mean([m.other for m in facts.memory]))) if facts.memory else 0,
        messages=float(talks.sum()) / steps,
        sent_bytes=float(ops.size_bytes[talks].sum()) / steps,
        parameters=frozenset((each.name, each.shape) for each in facts.parameters),
    )
