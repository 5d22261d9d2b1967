"""What a recording tells of routing: the rows of each expert's first product, layer by layer.

Experts are modules `...experts.0`, `...experts.1`; who got no rows ran nothing. A job that runs all
of a layer's experts as one grouped product does not tell how many rows each had.
"""

import re
from collections import defaultdict
from typing import Final

import numpy as np

from paceline.graph import NONE, Graph, Phase
from paceline.graph.work import Matrix, Way
from paceline.place.operators.problem import PlacementError

_EXPERT: Final = re.compile(r"^(.*experts)\.(\d+)(?:\.|$)")


def routing_of(graph: Graph) -> list[list[int]]:
    """Rows by layer and expert, of all recorded ranks together."""
    found: dict[str, dict[int, int]] = {}
    for rank in graph.ranks:
        for layer, rows in _of_rank(graph, rank).items():
            mine = found.setdefault(layer, defaultdict(int))
            for expert, count in rows.items():
                mine[expert] += count
    if not found:
        raise PlacementError(
            "the recording has no products of modules `...experts.N`, so it does not tell how many "
            "rows each expert had; give counts in a JSON file"
        )
    count = 1 + max(expert for rows in found.values() for expert in rows)
    return [[rows.get(expert, 0) for expert in range(count)] for rows in found.values()]


def _of_rank(graph: Graph, rank: int) -> dict[str, dict[int, int]]:
    """By the path of a layer's experts: rows of each, in the rank's first step."""
    ops, found = graph.ops, dict[str, dict[int, int]]()
    mine = (ops.rank == rank) & (ops.phase == Phase.FORWARD) & (ops.layer != NONE)
    mine &= ops.work != NONE
    rows = np.flatnonzero(mine & (ops.step == ops.step[mine].min(initial=np.iinfo(np.int32).max)))
    for row in rows.tolist():
        named = _EXPERT.match(graph.names[int(ops.layer[row])])
        work = graph.works[int(ops.work[row])].work
        if named and isinstance(work.dims, Matrix) and work.way is Way.FORWARD:
            found.setdefault(named[1], {}).setdefault(int(named[2]), work.dims.m)
    return found
