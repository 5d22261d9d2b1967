"""A product whose rows are summed over tensor-parallel workers while later rows are computed.
CoCoNet's overlap of MatMul and AllReduce (Jangda et al., ASPLOS 2022), as weave schedules it.

Layers that are cut by their inputs (RowwiseParallel) compute in chunks of rows, and each chunk's
sum is under way beside the next one's product; two workers exchange over a connection of their own.
Numbers are the same but for the order in which more than two workers' parts are added. Wrong where
a chunk reaches a smaller share of the processor's rate than the whole product, and on cores that
workers share with the network's processing.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from paceline.cost.operators import OperatorClass, classes_of
from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.overlapped import overlapped
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError


@dataclass(frozen=True)
class OverlappedProducts(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = frozenset({"overlapped_products", "compiled", "autocast"})
    applies: ClassVar[bool] = True

    chunks: int = 8  # of rows

    def __post_init__(self) -> None:
        if self.chunks < 2:
            raise StrategyError(f"{self.chunks} chunks were asked for; give 2 or more")

    def transform(self, graph: Graph) -> Graph:
        known = classes_of(graph)
        products = known == OperatorClass.PRODUCT
        others = ~products & ~np.isin(known, (OperatorClass.OTHER, OperatorClass.LAYOUT))
        return overlapped(graph, products, others, self.chunks)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(chunks) for chunks in (4, 8))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.weave.torch_row_cut import products_overlapped

        return products_overlapped(run.model, self.chunks)
