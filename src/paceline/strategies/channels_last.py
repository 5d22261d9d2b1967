"""Images, weights of convolutions and all between them with their channels innermost in memory.
PyTorch's channels-last format, predicted as Daydream scales operators (Zhu et al., ATC 2020).

Convolutions then read runs of channels, and libraries need not reorder what they are given. Of a
GPU's job the kernels that do so go, and batch norms take their passes over memory; a job without
such kernels is refused, for nothing tells what it would gain. Wrong where a processor's ratios are
typical rather than measured (`paceline measure --for RUN`), and where layers between convolutions
bring the old order back, which then costs copies that neither tells of.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from paceline.cost.innermost import innermost, innermost_words
from paceline.cost.operators import OperatorClass, of_class
from paceline.cost.variants import in_variant, seen_in, typical_words
from paceline.graph import Graph, LaneKind, Phase
from paceline.graph.condense import Grain
from paceline.graph.graph import Bool
from paceline.graph.variants import Variant
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError


@dataclass(frozen=True)
class ChannelsLast(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = frozenset({"channels_last"})
    applies: ClassVar[bool] = True

    def transform(self, graph: Graph) -> Graph:
        if _on_device(graph):
            return innermost(graph)
        return in_variant(graph, _rows(graph), Variant.CHANNELS_LAST)

    def rests_on(self, graph: Graph) -> Iterator[str]:
        if _on_device(graph):
            return innermost_words(graph)
        return typical_words(graph, _rows(graph), Variant.CHANNELS_LAST)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_channels import channels_innermost

        return channels_innermost(run)


def _on_device(graph: Graph) -> bool:
    return bool((graph.lanes.kind == LaneKind.STREAM).any())


def _rows(graph: Graph) -> Bool:
    """Convolutions, and operators of which a measurement saw images."""
    passes = np.isin(graph.ops.phase, (Phase.FORWARD, Phase.BACKWARD))
    convolves = of_class(graph, OperatorClass.CONVOLUTION)
    if not (passes & convolves).any():
        raise StrategyError(
            "no convolution is seen in this job, and nothing else runs faster with its channels "
            "last; leave channels_last out"
        )
    return passes & (convolves | seen_in(graph, Variant.CHANNELS_LAST))
