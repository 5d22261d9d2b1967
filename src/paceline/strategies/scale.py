"""Chosen ops take a multiple of their time: "what if the backward pass took half?"

`scale(select="phase=backward", factor=0.5)`. Communication is scaled on whatever cluster it is
then priced for. It says what a change would bring, never how to make it.
Wrong where what shortens one op lengthens another.
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.scaled import scaled
from paceline.graph.select import selected
from paceline.strategies.strategy import Strategy, StrategyError


@dataclass(frozen=True)
class Scale(Strategy):
    grain: ClassVar[Grain] = Grain.OP  # a selection may name any op
    how: ClassVar[str] = "It asks what a change would bring, and does not say which change."

    select: str  # as in `kind=transfer,rank=0|2-3`
    factor: float

    def __post_init__(self) -> None:
        if not 0 <= self.factor < float("inf"):
            raise StrategyError(f"a factor of {self.factor:g} was asked for; give 0 or more")

    def transform(self, graph: Graph) -> Graph:
        rows = selected(graph, self.select)
        if not rows.any():
            raise StrategyError(
                f"{self.select!r} selects none of the graph's {len(graph)} ops. "
                "`paceline show` lists kinds, layers and ops."
            )
        return scaled(graph, rows, self.factor)
