"""Linear layers trained as two thin factors of a given rank, in place of one matrix. Denil et al.,
"Predicting Parameters in Deep Learning" (2013); what a low-rank weight is deployed as.

A layer of n x m has r (n + m) weights: fewer multiplications, fewer bytes of gradients, a shorter
update. Training begins with the nearest weight of that rank and ends with a dense one. Layers
that would not shrink stay as they are. Wrong where thin products reach a smaller share of the
processor's rate than the recorded layer's did.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.graph import Graph
from paceline.graph.remodel import Factor
from paceline.strategies.remodelling import Remodelling, linear_weights
from paceline.strategies.strategy import Strategy, StrategyError

if TYPE_CHECKING:
    from paceline.runtime.layers import Remaking


@dataclass(frozen=True)
class Factored(Remodelling):
    rank: int
    layers: str = "*"  # names, with * and ?, apart by |

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise StrategyError(f"a rank of {self.rank} was asked for; give 1 or more")

    @property
    def chosen(self) -> str:
        return self.layers

    def factors(self, shape: tuple[int, ...]) -> tuple[Factor, ...]:
        if len(shape) != 2:
            return ()
        (rows, columns), r = shape, self.rank
        if r * (rows + columns) >= rows * columns:
            return ()
        return Factor((r, columns), r / rows), Factor((rows, r), r / columns)

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """An eighth and a quarter of the widest layer's smaller side."""
        sides = [min(weight.shape) for weight in linear_weights(graph)]
        for share in (8, 4) if max(sides, default=0) >= 16 else ():
            yield cls(max(sides) // share)

    def remaking(self) -> "Remaking":
        from paceline.runtime.layers import Remaking
        from paceline.runtime.layers.torch_composed import thin

        return Remaking(lambda weight: thin(weight, self.rank))
