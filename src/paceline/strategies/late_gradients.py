"""Weight gradients of linear layers are made behind all input gradients, those of front layers
first. Out-of-order backprop (Oh et al., EuroSys 2022); reordered computation in Caramel (Hashemi et
al., 2020).

The backward pass needs each layer's input gradient to go on; weight gradients are needed by the
exchange alone. Held back, they are computed beside the exchange of what else stands last in line: a
large embedding, a wide first layer. Their own exchange then begins later, so that a job whose link
is busy from the first bucket on loses. `first` counts layers from the front of the model, as it
defines them, 0 for all; those behind them are as ever. `order` is `next use`, from the front on, or
`largest`, by their bytes. Numbers are the very same. DDP puts gradients into buckets of the job's
sizes as they then become ready, and hands buckets over in turn; add `buckets`. What a layer reads,
and the gradient of its result, live until its turn, so a step needs more memory.

Only plain `nn.Linear` layers under DDP that own their weight are held back: a convolution makes
both gradients in one call, and `nn.MultiheadAttention` calls no layers. Gradients of gradients are
refused in the run. Wrong where layers are small, for each runs two functions of Python more; and
where a layer runs several times in a pass, which is predicted as ever and held back in the run.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.cost.operators import OperatorClass, of_class
from paceline.graph import Axis, Graph
from paceline.graph.bucket_limits import bucket_limits
from paceline.graph.condense import Grain
from paceline.graph.late_gradients import late
from paceline.graph.weight_products import WeightGradients, weight_gradients
from paceline.runtime.late_order import NEXT_USE, ORDERS, late_order
from paceline.runtime.run import Run
from paceline.strategies.buckets import recut
from paceline.strategies.remodelling import linear_weights
from paceline.strategies.seldom import SELDOM
from paceline.strategies.strategy import KEEPERS, Strategy, StrategyError


@dataclass(frozen=True)
class LateGradients(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = (
        KEEPERS
        | SELDOM
        | {
            "compiled",
            "fully_sharded",
            "fused_step",
            "late_gradients",
            "overlapped_products",
            "parameter_server",
            "pipeline",
            "substitute",
            "tensor_parallel",
        }
    )
    applies: ClassVar[bool] = True

    first: int = 0  # layers; 0: all
    order: str = NEXT_USE

    def __post_init__(self) -> None:
        if self.first < 0:
            raise StrategyError(f"the first {self.first} layers were asked for; give 0 or more")
        if self.order not in ORDERS:
            raise StrategyError(f"no order is called {self.order!r}; give {' or '.join(ORDERS)}")

    def transform(self, graph: Graph) -> Graph:
        limits, made = bucket_limits(graph), _told(graph)
        return recut(late(graph, made, self._order(graph, made)), limits)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """Where a gradient in front, ready last, is larger than those that would be held back: all
        layers but the last, whose gradient is there first, and the front half of them."""
        count = len(_weights(graph))
        if _large_front(graph):
            yield from map(cls, dict.fromkeys((count - 1, count // 2)))

    def rests_on(self, graph: Graph) -> Iterator[str]:
        told = set(_told(graph).parameters)
        left = [name for weight, name in _weights(graph).items() if weight not in told]
        if left:
            yield (
                f"the recording does not show how the weight gradient of {left[0]} is made"
                f"{f', and of {len(left) - 1} more layers' if left[1:] else ''}: taken to be made "
                "as ever"
            )

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_late_gradients import gradients_late

        return gradients_late(run, self.first, self.order)

    def _order(self, graph: Graph, made: WeightGradients) -> list[int]:
        weights = list(_weights(graph))
        sizes = [graph.facts.parameters[weight].size_bytes for weight in weights]
        told = set(made.parameters)
        order = [weights[layer] for layer in late_order(sizes, self.first, self.order)]
        return [weight for weight in order if weight in told]


def _weights(graph: Graph) -> dict[int, str]:
    """Of plain linear layers: numbers among the job's parameters, and layers' names."""
    linear = {parameter.name for parameter in linear_weights(graph)}
    numbered = enumerate(graph.facts.parameters)
    return {number: p.layer for number, p in numbered if p.name in linear}


def _large_front(graph: Graph) -> bool:
    """What stands before the second linear layer, beside the layers from there on but the last."""
    sizes, weights = [p.size_bytes for p in graph.facts.parameters], list(_weights(graph))
    between = [sizes[weight] for weight in weights[1:-1]]
    return bool(between) and max(sizes[: weights[0] + 1]) > max(between)


def _told(graph: Graph) -> WeightGradients:
    if any(group.axis not in (Axis.DATA, Axis.NONE, Axis.WORLD) for group in graph.groups):
        raise StrategyError(
            "ranks share layers or stages in this job, whose backward passes wait for one another; "
            "weight gradients are made later where ranks hold whole models, so leave "
            "late_gradients out"
        )
    products = of_class(graph, OperatorClass.PRODUCT)
    made = weight_gradients(graph, list(_weights(graph)), products)
    if not made.parameters:
        raise StrategyError(
            "the recording shows no product that makes the weight gradient of a linear layer, so "
            "none can be made later. Record a job with linear layers by `paceline record`, which "
            "names operators and layers; or leave late_gradients out"
        )
    return made
