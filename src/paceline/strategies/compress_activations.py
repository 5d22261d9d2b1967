"""What layers keep for the backward pass is kept in 16 or 8 bits, and restored there.
Jain et al., "Gist: Efficient Data Encoding for Deep Neural Network Training" (ISCA 2018).

The forward pass computes with whole values; only what gradients are made of is rounded, and a
ReLU's zeros stay zeros. 16 bits are bfloat16, 8 are even steps from a tensor's least to its largest
value. Wrong where ops outside any inner module keep much, where tensors are small, for each takes
some calls, and by a layer's values where a model holds more of them at once than its next op reads.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.graph.kinds import DType
from paceline.graph.stashed import stashed
from paceline.graph.with_packing import Form
from paceline.runtime.run import Run
from paceline.strategies.strategy import KEEPERS, Effect, Strategy, StrategyError

_FORMS = {
    16: Form("activations 16 bits", 1 / 2, kept=DType.BFLOAT16),
    8: Form(  # range, scale, round, shift, cut
        "activations 8 bits", 1 / 4, passes=11, scratch=1.0, calls=(12, 3)
    ),
}


@dataclass(frozen=True)
class CompressActivations(Strategy):
    effect: ClassVar[Effect] = Effect.LOSSY
    grain: ClassVar[Grain] = Grain.LAYER
    conflicts: ClassVar[frozenset[str]] = KEEPERS
    applies: ClassVar[bool] = True
    frees_memory: ClassVar[bool] = True

    bits: int = 16

    def __post_init__(self) -> None:
        if self.bits not in _FORMS:
            raise StrategyError(f"activations of {self.bits} bits were asked for; give 16 or 8")

    def transform(self, graph: Graph) -> Graph:
        return stashed(graph, _FORMS[self.bits])

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(bits) for bits in _FORMS)

    def apply(self, run: Run) -> AbstractContextManager[None]:
        from paceline.runtime.torch_compressed import FORMS
        from paceline.runtime.torch_stash import stashing

        return stashing(run.model, FORMS[self.bits])
