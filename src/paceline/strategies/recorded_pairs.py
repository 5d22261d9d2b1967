"""Pairs of linear layers that a recording shows, and how many rows a worker has in them."""

import numpy as np

from paceline.cost.operators import OperatorClass, classes_of, of_class
from paceline.graph import Graph, OpKind, Parameter, Phase
from paceline.graph.graph import Int64
from paceline.graph.shared_pairs import LinearPair, PairRows, SharedPair, pairs_of
from paceline.graph.sufficient_factors import rows_of
from paceline.graph.weight_products import weight_gradients
from paceline.strategies.remodelling import linear_weights
from paceline.strategies.strategy import StrategyError

_STEPS = {
    f"aten::{name}"
    for name in (
        "relu relu_ clamp_min clamp_min_ hardtanh hardtanh_ gelu silu silu_ tanh tanh_ sigmoid "
        "sigmoid_ leaky_relu leaky_relu_ elu elu_ dropout dropout_ native_dropout"
    ).split()
}
"""Operators of one input that leave a row's numbers where they are."""
_OF_DROPOUT = {"aten::mul", "aten::mul_", "aten::div_"}
_DROPOUT = {"aten::dropout", "aten::dropout_"}
_OTHERWISE = {"aten::add", "aten::add_", "aten::cat", *_OF_DROPOUT}
"""Operators that bring other numbers in."""
_BREAKS = (
    *(OperatorClass.PRODUCT, OperatorClass.CONVOLUTION, OperatorClass.ATTENTION),
    *(OperatorClass.NORMALISATION, OperatorClass.POOLING, OperatorClass.LAYOUT),
)


def recorded_pairs(graph: Graph, degree: int) -> list[LinearPair]:
    """Neighbours between which the forward pass has elementwise work alone."""
    forward = _Forward(graph)
    return pairs_of(linear_weights(graph), degree, forward.joins)


def with_rows(graph: Graph, pairs: list[LinearPair], asked: int) -> list[SharedPair]:
    """The pairs with the rows of their layers' products, or with those that were asked for."""
    numbers = {p.name: at for at, p in enumerate(graph.facts.parameters)}
    weights = sorted(numbers[w.name] for pair in pairs for w in (pair.first, pair.second))
    made = weight_gradients(graph, weights, of_class(graph, OperatorClass.PRODUCT))
    told = rows_of(graph, made)
    found = []
    for pair in pairs:
        rows = [told[at] for at in (numbers[pair.first.name], numbers[pair.second.name])
                if at in told]  # fmt: skip
        if not rows and not asked:
            raise StrategyError(
                f"the recording does not tell how many rows a worker has in {pair.first.layer}; "
                "give `rows`, as samples times positions, or record with `paceline record`"
            )
        each = rows[0].element_bytes if rows else _element_bytes(pair.first)
        count = asked or max(row.count for row in rows)
        found.append(SharedPair(pair, PairRows(count, each)))
    return found


def _element_bytes(weight: Parameter) -> int:
    outputs, inputs = weight.shape
    return weight.size_bytes // (outputs * inputs)


class _Forward:
    """What stands between layers in the first rank's first step."""

    def __init__(self, graph: Graph) -> None:
        ops = graph.ops
        rows = np.flatnonzero(ops.phase == Phase.FORWARD)
        for column in (ops.rank, ops.step):
            rows = rows[column[rows] == column[rows].min()] if len(rows) else rows
        self._rows = rows
        self._graph, self._classes = graph, classes_of(graph)

    def joins(self, first: Parameter, second: Parameter) -> bool:
        """Whether elementwise work, and some, is all that is between two layers."""
        ours, theirs = self._of(first.layer), self._of(second.layer)
        if not len(ours) or not len(theirs) or ours.max() > theirs.min():
            return False
        between = self._rows[(self._rows > ours.max()) & (self._rows < theirs.min())]
        names = {self._graph.text(int(name)) for name in self._graph.ops.name[between]}
        allowed = _OF_DROPOUT if names & _DROPOUT else set()
        breaks = np.isin(self._classes[between], _BREAKS).any()
        return bool(names & _STEPS) and not breaks and not names & (_OTHERWISE - allowed)

    def _of(self, layer: str) -> Int64:
        names, ops = self._graph.names, self._graph.ops
        number = names.index(layer) if layer in names else len(names)
        mine = (ops.layer[self._rows] == number) & (ops.kind[self._rows] == OpKind.COMPUTE)
        found: Int64 = self._rows[mine]
        return found
