"""Linear layers of circulant blocks: one vector of k weights stands for a block of k x k, and
Fourier transforms multiply. Ding et al., "CirCNN" (2017); Liao et al., on training them (2018).

A k-th of the weights, of their gradients' bytes and of the update, and fewer multiplications.
Training begins with the nearest such weights and ends with dense ones. Where sizes do not divide by
k a layer stays as it is, and so do convolutions. Wrong where complex
products reach another share of the processor's rate than a dense one does, for their operations are
counted at the rate that the layer was recorded with; and where few rows of inputs do not outweigh
the transforms of the weights, which are left out.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paceline.graph.remodel import Factor
from paceline.runtime.layers.circulant import operations
from paceline.strategies.remodelling import Remodelling
from paceline.strategies.strategy import StrategyError

if TYPE_CHECKING:
    from paceline.runtime.layers import Remaking


@dataclass(frozen=True)
class BlockCirculant(Remodelling):
    block: int = 8
    layers: str = "*"  # names, with * and ?, apart by |

    def __post_init__(self) -> None:
        if self.block < 2:
            raise StrategyError(f"blocks of {self.block} were asked for; give 2 or more")

    @property
    def chosen(self) -> str:
        return self.layers

    def factors(self, rows: int, columns: int) -> tuple[Factor, ...]:
        k = self.block
        if rows % k or columns % k:
            return ()
        down, across = rows // k, columns // k
        return (Factor((down, across, k), operations(down, across, k) / (2 * rows * columns)),)

    def remaking(self) -> "Remaking":
        from paceline.runtime.layers import Remaking
        from paceline.runtime.layers.torch_circulant import nearest_circulant

        return Remaking(lambda weight: nearest_circulant(weight, self.block))
