"""Workers send what the weight gradients of linear layers are made of, and each makes them itself.
Xie et al., "Lighter-Communication Distributed Machine Learning via Sufficient Factor Broadcasting"
(UAI 2016); chosen per layer as in Poseidon (Zhang et al., USENIX ATC 2017).

A weight's gradient is a product of the layer's input and of the gradient of its result. Where a
worker's batch has few rows (samples, times positions) these are far smaller than the weight: n
workers send n r (a + b) / (2 a b) of the bytes. They travel beside the backward pass, behind which
every worker makes the product of all rows, n times its own; numbers are the same but for the order
of sums. It wins on slow links, with wide layers, few workers and small batches.

`rows` is what a worker's batch has: layers that send less with so many are exchanged so, others as
ever; `layers` are names with * and ?, apart by |. Other numbers of rows that then come, unequal
ones too, are exchanged all the same.

Plain `nn.Linear` layers under DDP that own their weights. Passes under no_sync() gather, too.
Workers on unlike processors may round apart, for each makes the gradients. Wrong where a product of
n times the rows takes less than n times as long, as of a weight beyond the caches (4096 x 4096, 32
rows, one core: 1.8 times as long for four times the rows); where a layer runs several times in a
pass, which is predicted as ever; and on a device, where it was never tried.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.cost.collectives.gloo import beside_another
from paceline.cost.operators import OperatorClass, of_class
from paceline.errors import GraphError
from paceline.graph import Axis, Graph
from paceline.graph.bucket_limits import bucket_limits
from paceline.graph.condense import Grain
from paceline.graph.sufficient_factors import FactorRows, members_of, rows_of, with_factors
from paceline.graph.weight_products import WeightGradients, weight_gradients
from paceline.graph.work import Matrix
from paceline.runtime.run import Run
from paceline.runtime.sufficient_factors import payload_bytes, sends_less
from paceline.strategies.buckets import recut
from paceline.strategies.coded import CODECS
from paceline.strategies.remodelling import linear_weights, matches
from paceline.strategies.seldom import EXCHANGES, SELDOM
from paceline.strategies.strategy import KEEPERS, Strategy, StrategyError


@dataclass(frozen=True)
class SufficientFactors(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = (
        CODECS
        | EXCHANGES
        | KEEPERS
        | SELDOM
        | {
            *(
                "autocast",
                "block_circulant",
                "bounded_loss",
                "compiled",
                "early_update",
                "factored",
            ),
            *("fp8", "fully_sharded", "late_gradients", "low_rank", "overlapped_products"),
            *("pipeline", "substitute", "sufficient_factors", "tensor_parallel", "uneven_batches"),
        }
    )
    follows: ClassVar[frozenset[str]] = frozenset({"batch", "workers"})
    applies: ClassVar[bool] = True

    rows: int
    layers: str = "*"

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise StrategyError(f"{self.rows} rows were asked for; give 1 or more")

    def transform(self, graph: Graph) -> Graph:
        _require_replicas(graph)
        limits, members, made = bucket_limits(graph), members_of(graph), _told(graph)
        rows = rows_of(graph, made)
        payloads = {
            weight: self._payload(graph, weight, rows.get(weight))
            for weight in made.parameters
            if self._chooses(graph, weight, members)
        }
        if not payloads:
            raise StrategyError(self._none_fits(graph, made, members))
        beside = beside_another(members)
        found = with_factors(graph, made.of(list(payloads)), payloads, beside)
        return recut(found, limits) if found.facts.parameters else found

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """With the rows of the layer that has most, so that each that is chosen sends less."""
        try:
            rows = rows_of(graph, _told(graph))
        except (GraphError, StrategyError):
            return
        if rows:
            change = cls(max(each.count for each in rows.values()))
            if change.refusal(graph) is None:
                yield change

    def rests_on(self, graph: Graph) -> Iterator[str]:
        if not any(isinstance(each.work.dims, Matrix) for each in graph.works):
            yield f"the recording shows no layer's rows: each is taken to have {self.rows}"

    def fits(self, layer: str, shape: tuple[int, ...], members: int) -> bool:
        """Whether a layer of that name, with a weight of that shape, is exchanged so."""
        return matches(layer, self.layers) and sends_less(shape, self.rows, members)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_factors(self.fits)

    def _chooses(self, graph: Graph, weight: int, members: int) -> bool:
        told = graph.facts.parameters[weight]
        return self.fits(told.layer, told.shape, members)

    def _payload(self, graph: Graph, weight: int, told: FactorRows | None) -> int:
        parameter = graph.facts.parameters[weight]
        if told is not None:
            return payload_bytes(parameter.shape, told.count, told.element_bytes)
        outputs, inputs = parameter.shape
        each = parameter.size_bytes // (outputs * inputs)
        return payload_bytes(parameter.shape, self.rows, each)

    def _none_fits(self, graph: Graph, made: WeightGradients, members: int) -> str:
        told = [graph.facts.parameters[weight] for weight in made.parameters]
        shown = ", ".join(f"{p.layer} ({' x '.join(map(str, p.shape))})" for p in told[:6])
        return (
            f"{self} sends more on {members} workers than gradients are, for each of the layers "
            f"{shown} that it names; give fewer rows or workers, or leave it out"
        )


def _require_replicas(graph: Graph) -> None:
    if any(group.axis not in (Axis.DATA, Axis.NONE, Axis.WORLD) for group in graph.groups):
        raise StrategyError(
            "ranks share layers or stages in this job; factors are exchanged where ranks hold "
            "whole models, so leave sufficient_factors out"
        )


def _told(graph: Graph) -> WeightGradients:
    names = {parameter.name for parameter in linear_weights(graph)}
    weights = [i for i, p in enumerate(graph.facts.parameters) if p.name in names]
    made = weight_gradients(graph, weights, of_class(graph, OperatorClass.PRODUCT))
    if not made.parameters:
        raise StrategyError(
            "the recording shows no product that makes the weight gradient of a linear layer, so "
            "none can be made of gathered rows. Record a job with linear layers by `paceline "
            "record`, which names operators and layers; or leave sufficient_factors out"
        )
    return made
