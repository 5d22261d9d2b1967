"""Random graphs in layers: every op waits for some ops of earlier layers."""

from dataclasses import dataclass

import numpy as np

from paceline.errors import GraphError
from paceline.graph.builder import GraphBuilder
from paceline.graph.graph import Graph
from paceline.graph.kinds import Discipline


@dataclass(frozen=True)
class Layered:
    """Settings of the graph."""

    layers: int = 10
    width: int = 8  # ops in each layer
    lanes: int = 4  # on each rank
    ranks: int = 1
    fan_in: int = 2  # at most; from the layer before, or any earlier one now and then
    longest_ns: int = 1_000
    seed: int = 0
    discipline: Discipline = Discipline.PRIORITY

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.lanes, self.ranks) < 1 or self.fan_in < 0:
            raise GraphError(f"layers, width, lanes and ranks must be 1 or more: {self}")


def layered(job: Layered) -> Graph:
    """The graph; the same settings give the same graph."""
    random = np.random.default_rng(job.seed)
    b = GraphBuilder({"source": "synthetic layered"})
    lanes = [
        b.lane(rank, f"lane {lane}", discipline=job.discipline)
        for rank in range(job.ranks)
        for lane in range(job.lanes)
    ]
    made: list[int] = []
    for layer in range(job.layers):
        before = len(made)
        for place in range(job.width):
            sources = _sources(random, before, job)
            made.append(
                b.op(
                    f"op {layer}.{place}",
                    lanes[int(random.integers(len(lanes)))],
                    int(random.integers(job.longest_ns + 1)),
                    after=[made[i] for i in sources],
                    layer=f"layer {layer}",
                    priority=int(random.integers(3)),
                )
            )
    return b.build()


def _sources(random: np.random.Generator, before: int, job: Layered) -> list[int]:
    """Places among the ops made so far: mostly of the last layer."""
    if not before:
        return []
    count = int(random.integers(job.fan_in + 1))
    near = random.random(count) < 0.8
    recent = random.integers(max(0, before - job.width), before, count)
    return sorted(set(np.where(near, recent, random.integers(0, before, count)).tolist()))
