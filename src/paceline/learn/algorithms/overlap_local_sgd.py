"""Clients are pulled back to an anchor that follows their mean, which travels meanwhile.

Wang et al., "Overlap Local-SGD: An Algorithmic Approach to Hide Communication Delays in Distributed
SGD" (2020), as the strategy of that name merges. Clients never wait for a message unless it takes
longer than a round's steps.
"""

from dataclasses import dataclass

from paceline.learn.algorithms.merging import Merging
from paceline.runtime.rounds import Merge


@dataclass(frozen=True)
class OverlapLocalSgd(Merging):
    pullback: float = 0.6
    anchor_momentum: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = 0 < self.pullback <= 1 and 0 <= self.anchor_momentum < 1
        self.require(fine, "pullback is above 0, up to 1; anchor_momentum is below 1")

    @property
    def lag(self) -> int:
        return 1

    def merge(self) -> Merge:
        from paceline.runtime.rounds.torch_anchor import Anchor

        return Anchor(self.pullback, self.anchor_momentum)
