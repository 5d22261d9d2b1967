"""Workers train alone and average their weights every few steps. Stich, "Local SGD Converges Fast
and Communicates Little" (2019); Lin et al., "Don't Use Large Mini-Batches, Use Local SGD" (2020).

All weights travel at once, behind the update of a period's last step, and the worker waits. The
optimizer's tensors stay local, or `states` of them a weight (1 of SGD with momentum, 2 of Adam) are
averaged too. In the middle of a period a checkpoint holds one worker's own weights; when the
strategy is left, weights and the optimizer's tensors of all workers are brought to their mean.

Wrong where workers differ from step to step: those that wait for each other once a period lose less
than the typical step says.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.graph import Graph
from paceline.graph.rounds import Round, Rounds
from paceline.runtime.rounds import Merge
from paceline.strategies.seldom import Seldom
from paceline.strategies.strategy import Strategy


@dataclass(frozen=True)
class LocalSgd(Seldom):
    period: int = 8  # steps from one average to the next
    states: int = 0  # of the optimizer's tensors a weight that are averaged too

    def __post_init__(self) -> None:
        self.require(self.period >= 1 and self.states >= 0, "give 1 step or more, and 0 states")

    def rounds(self) -> Rounds:
        average = Round("average", self.period - 1, packs=2, takes=4, times=1 + self.states)
        return Rounds(self.period, (average,))

    def merge(self) -> Merge:
        from paceline.runtime.rounds.torch_average import Average

        return Average(self.states)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        return (cls(period) for period in (2, 4, 8, 16))
