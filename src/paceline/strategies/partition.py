"""Each exchange of gradients in several parts. dPRO (Hu et al., MLSys 2022); ByteScheduler (Peng et
al., SOSP 2019); P3 (Jayarajan et al., MLSys 2019).

Parts of one bucket go through the stages of its exchange one behind the other, and parts of another
may go between them: `priority` needs small ones. Of a bucket of S bytes, whose stages take a + b S
each, k* = sqrt(S sum_others b / a_bottleneck) parts are best (`best_parts`).

A part costs what a call costs, so it brings a loss where nothing goes between the parts. Wrong
where the library moves several parts at once faster than one behind the other.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import ceil, floor, inf, sqrt
from typing import ClassVar

import numpy as np

from paceline.cluster import Cluster, Network
from paceline.cost import Rates
from paceline.cost.collectives import Call, Library, RoundCost, choose, round_costs
from paceline.graph import Graph
from paceline.graph.gradients import carrying
from paceline.graph.links import Links
from paceline.graph.partition import partitioned
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError

MOST = 32


@dataclass(frozen=True)
class Partition(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"partition", "parameter_server"})
    follows: ClassVar[frozenset[str]] = frozenset({"accumulate", "buckets", "late_gradients"})
    applies: ClassVar[bool] = True
    at_once: ClassVar[bool] = True

    parts: int

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise StrategyError(f"{self.parts} parts were asked for; give 1 or more")

    def transform(self, graph: Graph) -> Graph:
        return partitioned(graph, lambda size_bytes: self.parts)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """Powers of two: how long a call takes and a byte is known of a cluster alone, for which
        `best_on` proposes."""
        return (cls(1 << power) for power in range(1, MOST.bit_length()))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_parts(self.parts)


@dataclass(frozen=True)
class PartStage:
    """One of the stages through which every part goes: so long for each part, and for each byte."""

    part_ns: float
    byte_ns: float

    def takes_ns(self, size_bytes: float) -> float:
        return self.part_ns + self.byte_ns * size_bytes


def exchange_ns(size_bytes: float, stages: Sequence[PartStage], parts: int) -> float:
    """T(k) = k a_x + b_x S + sum over the other stages of a + b S / k. Stage x, the bottleneck at
    one part, never waits; the others are passed before its first part and behind its last."""
    bottleneck, others = _apart(size_bytes, stages)
    spent = parts * bottleneck.part_ns + bottleneck.byte_ns * size_bytes
    return spent + sum(stage.takes_ns(size_bytes / parts) for stage in others)


def best_parts(size_bytes: float, stages: Sequence[PartStage]) -> int:
    """The whole number beside k* = sqrt(S sum_others b / a_x) at which `exchange_ns` is least."""
    bottleneck, others = _apart(size_bytes, stages)
    rest_ns = size_bytes * sum(stage.byte_ns for stage in others)
    wanted = sqrt(rest_ns / bottleneck.part_ns) if bottleneck.part_ns else inf if rest_ns else 1.0
    beside = {floor(min(wanted, MOST)), ceil(min(wanted, MOST))}
    return min(
        (max(1, parts) for parts in sorted(beside)),
        key=lambda parts: exchange_ns(size_bytes, stages, parts),
    )


def best_on(graph: Graph, cluster: Cluster, rates: Rates | None = None) -> Partition:
    """The best number of parts for the job's largest exchange of gradients on this cluster."""
    calls = carrying(graph, Links.of(graph))
    if not len(calls):
        raise StrategyError("the job exchanges no gradients that a cluster could price; leave it")
    largest = int(calls[np.argmax(graph.ops.size_bytes[calls])])
    op, ranks = graph[largest], graph.groups[int(graph.ops.group[largest])].ranks
    call = Call(op.collective, op.size_bytes, tuple(cluster.place_of(rank)[0] for rank in ranks))
    library = (rates or Rates()).library_of(cluster)
    return Partition(best_parts(op.size_bytes, stages_of(call, Network(cluster), ranks, library)))


def stages_of(
    call: Call, network: Network, ranks: Sequence[int], library: Library
) -> tuple[PartStage, PartStage]:
    """Of a call there: the links, and the members' adding up, which is what links do not take. Each
    is the line through what the whole and its half take."""
    if call.members < 2:
        return PartStage(library.call_ns, 0.0), PartStage(0.0, 0.0)
    half = max(1, call.size_bytes // 2)
    algorithm = choose(library, call)
    short, long = (
        list(round_costs(algorithm, replace(call, size_bytes=size), network, ranks, library))
        for size in (half, 2 * half)
    )
    links = [library.call_ns + _without_adding_ns(costs, network) for costs in (short, long)]
    adding = [sum(cost.repeat * cost.add_ns for cost in costs) for costs in (short, long)]
    carried = PartStage(max(0.0, 2 * links[0] - links[1]), (links[1] - links[0]) / half)
    return carried, PartStage(0.0, max(0.0, (adding[1] - adding[0]) / half))


def _without_adding_ns(costs: Sequence[RoundCost], network: Network) -> float:
    return sum(cost.repeat * (cost.ns(network) - cost.add_ns) for cost in costs)


def _apart(size_bytes: float, stages: Sequence[PartStage]) -> tuple[PartStage, list[PartStage]]:
    """The stage that takes longest with the whole, and the others."""
    at = max(range(len(stages)), key=lambda i: stages[i].takes_ns(size_bytes))
    return stages[at], [stage for i, stage in enumerate(stages) if i != at]
