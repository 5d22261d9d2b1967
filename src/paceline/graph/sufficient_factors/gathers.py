"""`Gathers`: the new all-gathers of all ranks and steps."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paceline.errors import GraphError
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE
from paceline.graph.new_calls import group_sizes
from paceline.graph.rebucket.source import Source, source_of
from paceline.graph.weight_products import WeightGradients


@dataclass(frozen=True, eq=False)
class Gathers:
    """In the order in which they begin in each rank's step, one row each."""

    step: Int64  # row of `RankSteps`
    parameter: Int64
    begins: Int64  # the layer's first backward product
    first: Int64  # the product that makes the weight's gradient, from here
    last: Int64  # to here
    size_bytes: Int64  # of all ranks together
    members: int  # who gather
    beside: float = 1.0  # of its price that one takes where another is under way

    @property
    def place(self) -> Int64:
        """Of each in its rank's step."""
        found: Int64 = np.arange(len(self.step)) - np.searchsorted(self.step, self.step)
        return found

    @property
    def order(self) -> list[int]:
        """Weights in the order of the first rank's first step."""
        found: list[int] = self.parameter[self.step == self.step[0]].tolist()
        return found


def gathers_of(
    source: Source, made: WeightGradients, payloads: Mapping[int, int], members: int
) -> Gathers:
    step = source.steps.of_op[made.first]
    if not len(step) or (source.first[step] == NONE).any():
        raise GraphError(
            "the recording has steps without an exchange of gradients, so it does not tell where "
            "factors would be gathered; leave sufficient_factors out"
        )
    by_product = np.lexsort((made.first, made.parameter, step))
    pairs = np.stack([step, made.parameter])[:, by_product]
    fresh = np.append(True, (np.diff(pairs, axis=1) != 0).any(axis=0))
    rows = by_product[fresh]  # of a weight's two stretches the first, which has the product
    rows = rows[np.lexsort((made.begins[rows], step[rows]))]
    weights = made.parameter[rows]
    size = members * np.array([payloads[weight] for weight in weights.tolist()], np.int64)
    begins, first, last = (column[rows] for column in (made.begins, made.first, made.last))
    return Gathers(step[rows], weights, begins, first, last, size, members)


def members_of(graph: Graph) -> int:
    """Ranks that share gradients."""
    counts = group_sizes(graph, source_of(graph))
    if len(counts) != 1 or counts == {1}:
        raise GraphError(
            f"its replicas are groups of {sorted(counts)} ranks; gradients are made of all ranks' "
            "rows in groups of one size, of 2 or more"
        )
    return counts.pop()
