"""The model under torch.compile: element-wise operators and normalisations made together.
Ansel et al., "PyTorch 2" (ASPLOS 2024); operator fusion as dPRO and Daydream predict it.

Runs of such operators become one loop that reads and writes memory once; products and convolutions
stay the library's. The first step compiles, for seconds to minutes, and is no part of the
prediction. What it brings is known only where it was measured on the job's own operators (`paceline
measure --for RUN --compiled`): without, the step is left as long as it was, which says nothing of
gain or loss. Wrong by the calls between operators, which are fewer then, and where the model
compiles in many parts: torch cuts it where DDP's buckets end, and a small convolutional net lost
half of its gain to one such cut. Where all gradients travel in one bucket (DDP's bucket_cap_mb),
it stays whole.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from paceline.cost.operators import FUSIBLE, OperatorClass, of_class
from paceline.cost.variants import in_variant, typical_words
from paceline.graph import Graph, Phase
from paceline.graph.condense import Grain
from paceline.graph.graph import Bool
from paceline.graph.scaled import works
from paceline.graph.variants import Variant
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError


@dataclass(frozen=True)
class Compiled(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = frozenset(
        {"compiled", "batchnorm_relu", "checkpoint", "overlap_update"}
    )
    applies: ClassVar[bool] = True
    in_turns: ClassVar[bool] = False

    def transform(self, graph: Graph) -> Graph:
        return in_variant(graph, _rows(graph), Variant.COMPILED)

    def rests_on(self, graph: Graph) -> Iterator[str]:
        return typical_words(graph, _rows(graph), Variant.COMPILED)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_compiling import compiled

        return compiled(run.model, run.replicas)


def _rows(graph: Graph) -> Bool:
    passes = np.isin(graph.ops.phase, (Phase.FORWARD, Phase.BACKWARD))
    found: Bool = passes & of_class(graph, *FUSIBLE, OperatorClass.CONVOLUTION)
    if not (found & works(graph)).any():
        raise StrategyError(
            "no operator is seen in this job that torch.compile would make anew: it joins "
            "element-wise operators and normalisations. Record it with `paceline record`, which "
            "names operators"
        )
    return found
