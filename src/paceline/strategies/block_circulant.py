"""Linear layers and convolutions of circulant blocks: one vector of k weights stands for a block of
k x k, and Fourier transforms multiply. Ding et al., "CirCNN" (2017); Liao et al., on training them
(2018).

A k-th of the weights, of their gradients' bytes and of the update, and fewer multiplications. In a
convolution the blocks are of channels, for each place of its window. Training begins with the
nearest such weights and ends with dense ones. Where sizes do not divide by k a layer stays as it
is, and so do convolutions of several groups. Wrong where complex products reach another share of
the processor's rate than a dense one does, for their operations are counted at the rate that the
layer was recorded with; and where few rows of inputs do not outweigh the transforms of the weights,
which are left out.
"""

from dataclasses import dataclass
from math import prod
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

    def factors(self, shape: tuple[int, ...]) -> tuple[Factor, ...]:
        k, (rows, columns, *window) = self.block, shape
        if rows % k or columns % k:
            return ()
        down, across, places = rows // k, columns // k, prod(window)
        work = operations(down, across, k, places) / (2 * rows * columns * places)
        return (Factor((down, across, k, *window), work),)

    def remaking(self) -> "Remaking":
        from paceline.runtime.layers import Remaking
        from paceline.runtime.layers.torch_circulant_kernels import nearest

        return Remaking(lambda weight: nearest(weight, self.block))
