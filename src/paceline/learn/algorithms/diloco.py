"""What many local steps did to the weights is a gradient for an outer SGD with Nesterov's momentum.

Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models" (2023), as the
strategy of that name merges; the inner optimizer here is SGD with momentum, the paper's is AdamW.
"""

from dataclasses import dataclass

from paceline.learn.algorithms.merging import Merging
from paceline.runtime.rounds import Merge


@dataclass(frozen=True)
class DiLoCo(Merging):
    steps: int = 50
    outer_lr: float = 0.7
    outer_momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = self.outer_lr > 0 and 0 <= self.outer_momentum < 1
        self.require(fine, "outer_lr is above 0, outer_momentum below 1")

    def merge(self) -> Merge:
        from paceline.runtime.rounds.torch_outer import Outer, OuterSgd

        return Outer(OuterSgd(self.outer_lr, self.outer_momentum))
