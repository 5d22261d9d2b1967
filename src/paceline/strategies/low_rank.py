"""Linear layers trained as products of several, W = W_N ... W_1, which weight decay makes low in
rank; folded and cut by singular values in the end. Alkhouri et al., "LoRITa" (TMLR 2024).

All factors but the last are square, without biases or activations between them. A step is slower by
the products with them and sends more gradients; the gain comes after training, in a weight that
loses little when its small singular values go. Wrong where products of another size reach another
share of the processor's rate than the recorded layer's did.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.graph.remodel import Factor
from paceline.strategies.remodelling import Remodelling
from paceline.strategies.strategy import StrategyError

if TYPE_CHECKING:
    from paceline.runtime.layers import Remaking


@dataclass(frozen=True)
class LowRank(Remodelling):
    depth: int = 2  # factors of each weight
    rank: int = 0  # singular values that stay in the end; 0: by their energy
    energy: float = 0.999  # share of the sum of their squares that stays
    layers: str = "*"  # names, with * and ?, apart by |

    def __post_init__(self) -> None:
        if self.depth < 2 or self.rank < 0 or not 0 < self.energy <= 1:
            raise StrategyError(
                f"{self.depth} factors, rank {self.rank} and energy {self.energy:g} were asked "
                "for; give 2 factors or more, a rank of 0 or more, an energy above 0, to 1"
            )

    @property
    def chosen(self) -> str:
        return self.layers

    def factors(self, shape: tuple[int, ...]) -> tuple[Factor, ...]:
        if len(shape) != 2:
            return ()
        rows, columns = shape
        square = Factor((columns, columns), columns / rows)
        return (*(square for _ in range(self.depth - 1)), Factor((rows, columns), 1.0))

    def remaking(self) -> "Remaking":
        from paceline.runtime.layers import Remaking
        from paceline.runtime.layers.torch_composed import composed, truncated

        return Remaking(
            lambda weight: composed(weight, self.depth),
            lambda weight: truncated(weight, self.rank, self.energy),
        )
