"""What strategies share that make layers of other weights: both halves, but for how one layer is
made.
"""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar

from paceline.graph import Graph, Parameter, Role
from paceline.graph.bucket_limits import bucket_limits
from paceline.graph.condense import Grain
from paceline.graph.remodel import Factor, NewLayer, remodelled
from paceline.runtime.run import Run
from paceline.strategies.buckets import recut
from paceline.strategies.strategy import Effect, Strategy, StrategyError

if TYPE_CHECKING:
    from paceline.runtime.layers import Remaking


@dataclass(frozen=True)
class Remodelling(Strategy):
    """A strategy whose settings say of what a layer is made."""

    grain: ClassVar[Grain] = Grain.OP  # only there ops have a layer
    effect: ClassVar[Effect] = Effect.LOSSY
    conflicts: ClassVar[frozenset[str]] = frozenset(
        {"block_circulant", "low_rank", "factored", "tensor_parallel"}
    )
    follows: ClassVar[frozenset[str]] = frozenset({"substitute"})
    applies: ClassVar[bool] = True
    remakes: ClassVar[bool] = True
    in_turns: ClassVar[bool] = False

    @abstractmethod
    def factors(self, shape: tuple[int, ...]) -> tuple[Factor, ...]:
        """What takes the place of a weight of that shape, of two dimensions in a linear layer and
        four in a convolution; empty where it does not fit."""

    def told(self, graph: Graph, weight: Parameter) -> tuple[Factor, ...]:
        """`factors` of a weight of the graph, with what measurements tell of them."""
        return self.factors(weight.shape)

    @abstractmethod
    def remaking(self) -> "Remaking":
        """The same for a live layer; needs torch."""

    @property
    @abstractmethod
    def chosen(self) -> str:
        """Names of layers, with * and ?, apart by |."""

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        for one in super().choices(graph):
            if isinstance(one, Remodelling) and one._new_layers(graph):
                yield one

    def transform(self, graph: Graph) -> Graph:
        layers = self._new_layers(graph)
        if not layers:
            raise StrategyError(self._no_layers(graph))
        if graph.world_size < 2:
            return remodelled(graph, layers)  # there are no buckets
        limits = bucket_limits(graph)
        return recut(remodelled(graph, layers), limits)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.layers.torch_swapped import swapped

        return swapped(run, self.remaking(), self.fits)

    def fits(self, layer: str, shape: tuple[int, ...]) -> bool:
        """Whether a layer of that name with a weight of that shape is made anew."""
        return matches(layer, self.chosen) and bool(self.factors(shape))

    def _new_layers(self, graph: Graph) -> list[NewLayer]:
        return [
            NewLayer(weight, self.told(graph, weight))
            for weight in _weights(graph)
            if self.fits(weight.layer, weight.shape)
        ]

    def _no_layers(self, graph: Graph) -> str:
        found = _weights(graph)
        if not found:
            return (
                "the recording names no linear layers, which this strategy makes anew. Record the "
                "job again where it has some: older recordings do not tell the shapes of weights."
            )
        shown = ", ".join(f"{p.layer} ({' x '.join(map(str, p.shape))})" for p in found[:6])
        return f"{self} fits none of the layers {shown}; give other settings"


def linear_weights(graph: Graph) -> list[Parameter]:
    """The weights of plain linear layers."""
    return [p for p in graph.facts.parameters if p.role is Role.LINEAR_WEIGHT and len(p.shape) == 2]


def _weights(graph: Graph) -> list[Parameter]:
    """Those of linear layers, and of convolutions."""
    images = (p for p in graph.facts.parameters if p.role is Role.CONVOLUTION_WEIGHT)
    return [*linear_weights(graph), *images]


def matches(layer: str, chosen: str) -> bool:
    """Whether a layer's name is among those of a setting: with * and ?, apart by |."""
    return any(fnmatchcase(layer, pattern.strip()) for pattern in chosen.split("|"))
