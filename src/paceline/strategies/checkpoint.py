"""Chosen layers keep only their inputs, and run forward again in the backward pass.
Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016); torch.utils.checkpoint.

`layers` are paths with wildcards, several with | between; without any, the model's numbered blocks.
`every` layers that follow one another in a Sequential run again together and keep the first one's
input. Random numbers and the statistics of batch norm are as without. Wrong where a layer's end
saves nothing, for torch stops there the second time; by what torch's bookkeeping takes in Python,
where ops are small; and where the caches hold in one pass what they do not in the other.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.errors import PacelineError
from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.recompute import recomputed
from paceline.runtime.run import Run
from paceline.runtime.segments import Segments, segments_of
from paceline.strategies.strategy import KEEPERS, Strategy, StrategyError


@dataclass(frozen=True)
class Checkpoint(Strategy):
    grain: ClassVar[Grain] = Grain.LAYER
    conflicts: ClassVar[frozenset[str]] = KEEPERS
    follows: ClassVar[frozenset[str]] = frozenset({"remodelling"})
    applies: ClassVar[bool] = True
    frees_memory: ClassVar[bool] = True

    layers: str = ""
    every: int = 1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise StrategyError(f"checkpoint of every {self.every} layers; give 1 or more")

    def transform(self, graph: Graph) -> Graph:
        return recomputed(graph, _segments(graph, self))

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """The blocks, or else the outermost layers; in a Sequential also two and four together."""
        candidates = (cls(), *(cls("*", every) for every in (1, 2, 4)))
        return (one for one in candidates if _fits(one, graph))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_recompute import recomputing

        return recomputing(run.model, self.layers, self.every)


def _segments(graph: Graph, asked: Checkpoint) -> Segments:
    modules = {layer.name: layer.kind for held in graph.facts.memory for layer in held.layers}
    if not modules:
        raise StrategyError(
            "the recording does not tell what layers keep, so none can be chosen. Record the job "
            "anew with `paceline record`; recordings of older versions lack it."
        )
    return segments_of(modules, asked.layers, asked.every)


def _fits(asked: Checkpoint, graph: Graph) -> bool:
    try:
        return bool(_segments(graph, asked))
    except PacelineError:
        return False
