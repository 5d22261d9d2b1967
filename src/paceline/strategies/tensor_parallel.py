"""Pairs of linear layers shared among workers: the first cut by its outputs, the second by its
inputs. Shoeybi et al., "Megatron-LM" (2019).

Workers side by side then train on one batch between them: work, weights and gradients of the pairs
go by the degree, activations are added up once a pair forward and once backward, and gradients are
reduced among fewer. Wrong where an all-reduce could be hidden behind other work, and where smaller
products reach a smaller share of the processor's rate; without `rows` activations count as free.

Predicted alone, for an unchanged script cannot be run so: each worker draws its own batch, and the
targets, which the others of its group would need too, never pass through the model; norms that a
script takes of its parameters (to clip them) would be those of one worker's parts; and what one
worker evaluates alone would wait for its group.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.bucket_limits import bucket_limits
from paceline.graph.condense import Grain
from paceline.graph.replicas import replicas_of
from paceline.graph.tensor_pairs import Sharing, pairs_of, with_tensor_pairs
from paceline.strategies.buckets import recut
from paceline.strategies.remodelling import linear_weights
from paceline.strategies.strategy import Effect, Strategy, StrategyError


@dataclass(frozen=True)
class TensorParallel(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    effect: ClassVar[Effect] = Effect.RELAXED  # fewer batches a step
    conflicts: ClassVar[frozenset[str]] = frozenset(
        {"tensor_parallel", "pipeline", "block_circulant", "low_rank", "factored"}
    )
    how: ClassVar[str] = (
        "Workers that share pairs train on one batch, and only the script can give all of a group "
        "the same inputs and targets. Deal batches by group, and cut the model before DDP wraps "
        "it: torch.distributed.tensor.parallel.parallelize_module with ColwiseParallel and "
        "RowwiseParallel, on a mesh of data x tensor."
    )

    degree: int  # workers that share a pair
    rows: int = 0  # of a worker's activations: samples times positions

    def __post_init__(self) -> None:
        if self.degree < 2 or self.rows < 0:
            raise StrategyError(
                f"a degree of {self.degree} and {self.rows} rows were asked for; give a degree of "
                "2 or more, and rows of 0 or more"
            )

    def transform(self, graph: Graph) -> Graph:
        weights = linear_weights(graph)
        pairs = pairs_of(weights, self.degree)
        if not pairs:
            raise StrategyError(
                f"the recording names {len(weights)} linear layers, and no two that follow one "
                f"another have an inner size that {self.degree} divides"
            )
        limits = bucket_limits(graph)
        shared = with_tensor_pairs(graph, pairs, Sharing(self.degree, self.rows))
        return recut(shared, limits)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """Degrees that divide the workers and some pair."""
        count = replicas_of(graph)
        for degree in (2, 4, 8):
            if count % degree == 0 and pairs_of(linear_weights(graph), degree):
                yield cls(degree)
