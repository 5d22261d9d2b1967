"""A batch norm in two halves, moments and scaling, the second joined with the ReLU behind it; what
the next layer saves of their result is made again. Jung et al., "Restructuring Batch Normalization
to Accelerate CNN Training" (2019), which Daydream predicts (Zhu et al., 2020).

The two make and read what lies between them no more: of some fourteen passes over memory seven
stay. With `recomputed` their result is not kept for the backward pass but made from the norm's
input, which is kept anyway, in one more pass for reading and one for writing. Processors alone, by
a kernel of our own, on contiguous float32 images; with other images a norm stays torch's. The
paper also joins the moments with the convolution before, which belongs to the library here.

Wrong where the ratio is typical rather than measured (`paceline measure --for RUN`): passes are
counted then, and torch's batch norm is slower than its passes; and in memory where more than the
next layer reads the result.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from paceline.cost.variants import in_variant, typical_words
from paceline.graph import Basis, Graph, LaneKind
from paceline.graph.condense import Grain
from paceline.graph.given_up import Left, given_up
from paceline.graph.scaled import scaled
from paceline.graph.variants import Variant
from paceline.runtime.run import Run
from paceline.strategies.norm_pairs import NormPairs, norm_pairs
from paceline.strategies.strategy import KEEPERS, Strategy, StrategyError


@dataclass(frozen=True)
class RestructuredNorms(Strategy):
    grain: ClassVar[Grain] = Grain.OP
    conflicts: ClassVar[frozenset[str]] = KEEPERS | {
        "restructured_norms",
        "batchnorm_relu",
        "channels_last",
        "compiled",
    }
    applies: ClassVar[bool] = True

    recomputed: bool = True  # the result is made again in the backward pass, and not kept

    def transform(self, graph: Graph) -> Graph:
        pairs = _pairs(graph)
        norms = pairs.norms | pairs.norms_back
        made = in_variant(graph, norms, Variant.RESTRUCTURED)
        made = scaled(made, pairs.relus, 0.0, Basis.ARITHMETIC)
        made = scaled(made, pairs.relus_back, self._again(graph, pairs), Basis.ARITHMETIC)
        if not self.recomputed:
            return made
        return replace(made, memory=given_up(graph, pairs.relus, Left(0.0, restored=True)))

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(recomputed) for recomputed in (True, False))

    def rests_on(self, graph: Graph) -> Iterator[str]:
        pairs = _pairs(graph)
        return typical_words(graph, pairs.norms | pairs.norms_back, Variant.RESTRUCTURED)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_norm_relu import norms_restructured

        return norms_restructured(run.model, recomputed=self.recomputed)

    def _again(self, graph: Graph, pairs: NormPairs) -> float:
        """Making a result again takes as long as the ReLU took to make it, for both read once and
        write once; as a share of what the ReLU takes in the backward pass."""
        dur = np.maximum(graph.ops.dur_ns, 0)
        back = float(dur[pairs.relus_back].sum())
        return float(dur[pairs.relus].sum()) / back if self.recomputed and back else 0.0


def _pairs(graph: Graph) -> NormPairs:
    if (graph.lanes.kind == LaneKind.STREAM).any():
        raise StrategyError(
            "the job trains on a device, and norms are restructured by a kernel for processors; "
            "compiled joins them there"
        )
    pairs = norm_pairs(graph)
    if not pairs.norms.any():
        raise StrategyError(
            "no ReLU behind a batch norm is seen in this job, so none can be joined with it; leave "
            "restructured_norms out"
        )
    return pairs
