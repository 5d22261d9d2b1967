"""Pairs of linear layers shared among workers side by side: the first cut by its outputs, the
second by its inputs. Shoeybi et al., "Megatron-LM" (2019); here every worker keeps its own batch.

A pair's input is gathered from its group's workers, each computes all their rows with its part, and
what the second layer gives is summed back to those whose rows they are; in the backward pass the
other way round. A worker multiplies as much as before, and holds, updates and reduces a part:
weights, gradients and state of pairs fall by the degree, and gradients of parts are reduced among
the workers that hold the same one. The training thread waits for rows, up to four times a pair and
step: it wins where weights are far larger than a batch's rows. Numbers are the same but for the
order of sums; Dropout inside of a pair draws others.

Pairs follow one another through activations and Dropout alone, in one module that torch.fx can
trace, or in torch's own transformer layers. A live job needs one DDP module, batches of equal size
within a group in each step, and one optimizer that updates numbers one by one. Checkpoints hold
whole weights and state, which one rank may save alone; what one rank evaluates alone must run under
torch.no_grad() or in eval(). An error inside gives back the weights from before the plan.

What a script writes into weights on one rank alone reaches that rank's parts alone; a mean of
weights that it keeps itself (EMA) stops it with torch's error.

`rows` of a worker's batch (samples times positions) are as recorded where it is 0. Wrong where the
recording shows elementwise work between layers that the live job does not prove to be a pair, which
it leaves whole; by the host's work for each exchange, of which only the hand-over is counted, and
for updates of parts; where a part of the columns multiplies at another rate; and on a device, where
it was never tried.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.errors import GraphError
from paceline.graph import Graph
from paceline.graph.bucket_limits import bucket_limits
from paceline.graph.condense import Grain
from paceline.graph.replicas import replicas_of
from paceline.graph.shared_pairs import cut_parameters, talk_of, with_pair_exchange, with_parts
from paceline.runtime.run import Run
from paceline.strategies.buckets import recut
from paceline.strategies.coded import CODECS
from paceline.strategies.recorded_pairs import recorded_pairs, with_rows
from paceline.strategies.remodelling import linear_weights
from paceline.strategies.seldom import EXCHANGES, SELDOM
from paceline.strategies.strategy import KEEPERS, Strategy, StrategyError


@dataclass(frozen=True)
class TensorParallel(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = (
        CODECS
        | EXCHANGES
        | KEEPERS
        | SELDOM
        | {
            *("tensor_parallel", "pipeline", "block_circulant", "low_rank", "factored"),
            *("autocast", "bounded_loss", "compiled", "early_update", "fp8", "fully_sharded"),
            *("late_gradients", "overlapped_products", "substitute", "sufficient_factors"),
            "uneven_batches",
        }
    )
    follows: ClassVar[frozenset[str]] = frozenset({"batch", "buckets", "workers"})
    applies: ClassVar[bool] = True

    degree: int  # workers that share a pair
    rows: int = 0  # of a worker's activations: samples times positions; 0: as recorded

    def __post_init__(self) -> None:
        if self.degree < 2 or self.rows < 0:
            raise StrategyError(
                f"a degree of {self.degree} and {self.rows} rows were asked for; give a degree of "
                "2 or more, and rows of 0 or more"
            )

    def transform(self, graph: Graph) -> Graph:
        pairs = recorded_pairs(graph, self.degree)
        if not pairs:
            raise StrategyError(
                f"the recording names {len(linear_weights(graph))} linear layers, and no two that "
                "follow one another through elementwise work alone have an inner size that "
                f"{self.degree} divides"
            )
        less = with_parts(graph, pairs, self.degree)
        if less.facts.parameters:
            less = recut(less, bucket_limits(graph))
        shared, cut = with_rows(graph, pairs, self.rows), list(cut_parameters(graph, pairs))
        return with_pair_exchange(less, talk_of(graph), shared, cut, self.degree)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """Degrees that divide the workers and some pair."""
        try:
            count = replicas_of(graph)
        except GraphError:
            return
        for degree in (2, 4, 8):
            if count % degree == 0 and cls(degree).refusal(graph) is None:
                yield cls(degree)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_pairs(self.degree)
