"""Which layers are pairs, and what of them is cut: said once for the graph and for the live job."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paceline.graph.facts import Parameter
from paceline.graph.graph import Graph

Joined = Callable[[Parameter, Parameter], bool]
"""Of two weights: whether the second layer takes what the first gives, after elementwise work."""


@dataclass(frozen=True)
class LinearPair:
    """Weights of two layers of which the second takes what the first gives."""

    first: Parameter
    second: Parameter


@dataclass(frozen=True)
class PairRows:
    """How many rows a worker's activations have, and the bytes of each of their numbers."""

    count: int
    element_bytes: int


@dataclass(frozen=True)
class SharedPair:
    pair: LinearPair
    rows: PairRows

    @property
    def entry_bytes(self) -> int:
        """Of a worker's rows where the first layer takes them."""
        return self.rows.count * self.rows.element_bytes * self.pair.first.shape[1]

    @property
    def exit_bytes(self) -> int:
        """Of a worker's rows where the second layer gives them."""
        return self.rows.count * self.rows.element_bytes * self.pair.second.shape[0]


def pairs_of(weights: Sequence[Parameter], degree: int, joined: Joined) -> list[LinearPair]:
    """Neighbours that are joined and divide, each weight in one pair."""
    found, at = list[LinearPair](), 0
    while at + 1 < len(weights):
        first, second = weights[at], weights[at + 1]
        inner = first.shape[0]
        fits = inner == second.shape[1] and inner % degree == 0 and joined(first, second)
        if fits:
            found.append(LinearPair(first, second))
        at += 2 if fits else 1
    return found


def cut_parameters(graph: Graph, pairs: Sequence[LinearPair]) -> Iterator[Parameter]:
    """Those of which a rank holds a part: both weights, and the first layer's bias."""
    firsts = {pair.first.layer for pair in pairs}
    weights = {each.name for pair in pairs for each in (pair.first, pair.second)}
    for parameter in graph.facts.parameters:
        if parameter.name in weights or (parameter.layer in firsts and len(parameter.shape) == 1):
            yield parameter
