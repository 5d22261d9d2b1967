"""What many local steps did to the weights is a gradient for an outer SGD with Nesterov's momentum.
Douillard et al., "DiLoCo" (2023); in fragments that travel in turn while the next steps are
computed, "Streaming DiLoCo with Overlapping Communication" (2025).

A fragment is a run of neighbouring parameters; each is exchanged once a period, and its mean is
taken in `delay` steps later (0: the worker waits). `mixing` is the share of its own weights that a
worker then keeps. A checkpoint holds one worker's own weights; when the strategy is left, what is
under way is dropped, and weights and the optimizer's tensors of all workers are brought to their
mean.

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
class Diloco(Seldom):
    period: int = 50  # steps from one exchange of a fragment to its next
    outer_lr: float = 0.7
    outer_momentum: float = 0.9
    fragments: int = 1
    delay: int = 0  # steps during which a fragment travels
    mixing: float = 0.0

    def __post_init__(self) -> None:
        self.require(1 <= self.fragments <= self.period, "give 1 fragment to one for each step")
        most = self.period // self.fragments
        self.require(0 <= self.delay <= most, f"with so many fragments a delay is 0 to {most}")
        fine = self.outer_lr > 0 and 0 <= self.outer_momentum < 1 and 0 <= self.mixing < 1
        self.require(fine, "an outer rate is above 0, its momentum and the mixing below 1")

    def rounds(self) -> Rounds:
        takes = 10 if self.mixing else 9
        ends = [n * self.period // self.fragments - 1 for n in range(1, self.fragments + 1)]
        rounds = (
            Round(f"fragment {n}", end, self.delay, packs=5, takes=takes, fragment=n)
            for n, end in enumerate(ends)
        )
        return Rounds(self.period, tuple(rounds), self.fragments)

    def merge(self) -> Merge:
        from paceline.runtime.rounds.torch_outer import Outer, OuterSgd

        return Outer(OuterSgd(self.outer_lr, self.outer_momentum, self.mixing))

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        yield cls()
        if len(graph.facts.parameters) > 1:
            yield cls(fragments=2, delay=5)
