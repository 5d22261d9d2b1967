"""A ReLU behind a batch norm writes over what it reads, and needs no memory of its own.
After "Restructuring Batch Normalization to Accelerate CNN Training" (Jung et al., 2019), which
Daydream predicts (Zhu et al., 2020).

Batch norm's backward pass needs its input and not its result, so the result may be overwritten. The
paper also splits the norm, as restructured_norms does by a kernel of our own. Wrong where the ratio
is typical rather than measured, and where memory that is no longer touched speeds up other
operators.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.cost.variants import in_variant, typical_words
from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.graph import Bool
from paceline.graph.variants import Variant
from paceline.runtime.run import Run
from paceline.strategies.norm_pairs import norm_pairs
from paceline.strategies.strategy import Strategy, StrategyError


@dataclass(frozen=True)
class BatchnormRelu(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = frozenset({"batchnorm_relu", "restructured_norms"})
    applies: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        return in_variant(graph, _relus(graph), Variant.IN_PLACE)

    def rests_on(self, graph: Graph) -> Iterator[str]:
        return typical_words(graph, _relus(graph), Variant.IN_PLACE)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_in_place import relus_in_place

        return relus_in_place(run.model)


def _relus(graph: Graph) -> Bool:
    """ReLUs of the forward pass behind a batch norm."""
    found = norm_pairs(graph).relus
    if not found.any():
        raise StrategyError(
            "no ReLU behind a batch norm is seen in this job, so none can write over its result; "
            "leave batchnorm_relu out"
        )
    return found
