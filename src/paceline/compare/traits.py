"""What of a job decides its step beyond the times: its model, batch, messages and operators."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.analyse.operators import operators_of
from paceline.graph import COMMUNICATION, NONE, OpKind, Phase
from paceline.graph.graph import Graph

Home = tuple[Phase, str]  # phase and layer


@dataclass(frozen=True)
class Traits:
    """Zero and empty where a run does not tell."""

    workers: int
    batch_bytes: int  # of a rank
    messages: float  # that a rank takes part in, per step
    sent_bytes: float  # in them
    optimizer: str
    parameters: frozenset[tuple[str, tuple[int, ...]]]
    operators: Mapping[Home, frozenset[str]]  # that compute, on any rank
    on_ranks: Mapping[int, frozenset[tuple[Phase, str, str]]]  # phase, layer, operator by rank

    @property
    def all_operators(self) -> frozenset[tuple[Phase, str, str]]:
        return frozenset(each for some in self.on_ranks.values() for each in some)


def traits_of(graph: Graph) -> Traits:
    facts, ops = graph.facts, graph.ops
    steps = max(1, len(np.unique(ops.step[ops.step != NONE])))
    first = ops.rank == min(graph.ranks, default=0)
    talks = np.isin(ops.kind, COMMUNICATION) & first
    homes: dict[Home, set[str]] = defaultdict(set)
    by_rank = _operators(graph)
    for some in by_rank.values():
        for phase, layer, name in some:
            homes[phase, layer].add(name)
    return Traits(
        workers=graph.world_size,
        batch_bytes=round(float(np.mean([m.other for m in facts.memory]))) if facts.memory else 0,
        messages=float(talks.sum()) / steps,
        sent_bytes=float(ops.size_bytes[talks].sum()) / steps,
        optimizer=facts.optimizer.kind if facts.optimizer else "",
        parameters=frozenset((each.name, each.shape) for each in facts.parameters),
        operators={home: frozenset(names) for home, names in homes.items()},
        on_ranks=by_rank,
    )


def _operators(graph: Graph) -> dict[int, frozenset[tuple[Phase, str, str]]]:
    """What each rank computes."""
    ops = graph.ops
    rows = np.flatnonzero(ops.kind == OpKind.COMPUTE)
    columns = np.stack([ops.rank, ops.phase, ops.layer, operators_of(graph)], axis=1)
    table = np.unique(columns[rows], axis=0)
    found: dict[int, set[tuple[Phase, str, str]]] = {rank: set() for rank in graph.ranks}
    for rank, phase, layer, name in table.tolist():
        found[rank].add((Phase(phase), graph.text(layer), graph.text(name)))
    return {rank: frozenset(some) for rank, some in found.items()}
