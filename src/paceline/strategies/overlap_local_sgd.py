"""Local SGD whose average travels while the next steps are computed. Wang, Liang and Joshi,
"Overlap Local-SGD: An Algorithmic Approach to Hide Communication Delays" (2020).

Behind each period every worker is pulled back towards an anchor, which follows the mean of the
workers with momentum, and hands over its weights, whose mean arrives a period later. The first
period ends without a pull, for no mean has come. A checkpoint holds one worker's own weights; when
the strategy is left, what is under way is dropped, and weights and the optimizer's tensors of all
workers are brought to their mean.

Wrong where the transfer slows the steps behind which it hides, as it does on cores that workers
share with the network's processing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.graph import Graph
from paceline.graph.rounds import Round, Rounds
from paceline.runtime.rounds import Merge
from paceline.strategies.seldom import Seldom
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class OverlapLocalSgd(Seldom):
    period: int = 8  # steps from one pull-back to the next
    pullback: float = 0.6  # how much of the way to the anchor a worker goes
    momentum: float = 0.7  # of the anchor

    def __post_init__(self) -> None:
        self.require(self.period >= 1, "give 1 step or more")
        self.require(0 < self.pullback <= 1 and 0 <= self.momentum < 1,
                     "a pull-back is above 0, to 1, and a momentum below 1")  # fmt: skip

    def rounds(self) -> Rounds:
        anchor = Round("anchor", self.period - 1, lasts=self.period, packs=2, takes=10)
        return Rounds(self.period, (anchor,))

    def merge(self) -> Merge:
        from paceline.runtime.rounds.torch_anchor import Anchor

        return Anchor(self.pullback, self.momentum)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(period) for period in (2, 4, 8, 16))
