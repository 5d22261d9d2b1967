"""Linear layers and convolutions of circulant blocks: one vector of k weights stands for a block of
k x k, and Fourier transforms multiply. Ding et al., "CirCNN" (2017); Liao et al., on training them
(2018).

A k-th of the weights, of their gradients' bytes and of the update, and fewer multiplications. In a
convolution the blocks are of channels, for each place of its window. Training begins with the
nearest such weights and ends with dense ones. Where sizes do not divide by k a layer stays as it
is, and so do convolutions of several groups. What layers then take, `paceline measure --for RUN`
measures in blocks of 8. Wrong without it, for transforms pass through memory more often than their
operations tell (times 1.2 to 5.8 too short on an EPYC); and where blocks are others, or layers of
unlike sizes are chosen from, for it goes by what all of the job's layers take together.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from paceline.cost.variants import ratios_of
from paceline.graph import Basis, Graph, Parameter, Role
from paceline.graph.remodel import Factor
from paceline.graph.variants import Ratio, Variant
from paceline.runtime.layers.circulant import BLOCK, operations
from paceline.strategies.remodelling import Remodelling
from paceline.strategies.strategy import StrategyError

if TYPE_CHECKING:
    from paceline.runtime.layers import Remaking


@dataclass(frozen=True)
class BlockCirculant(Remodelling):
    block: int = BLOCK
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
        return (Factor((rows // k, columns // k, k, *window), _counted(shape, k)),)

    def told(self, graph: Graph, weight: Parameter) -> tuple[Factor, ...]:
        """Times where they were measured; by operations from the measured blocks to others."""
        made = self.factors(weight.shape)
        ahead, back = _measured(graph, weight)
        if not made or ahead is None or back is None:
            return made
        share = _counted(weight.shape, self.block) / _counted(weight.shape, BLOCK)
        times = share * ahead.value, share * back.value
        return (Factor(made[0].shape, *times, Basis.MEASURED),)

    def rests_on(self, graph: Graph) -> Iterable[str]:
        if not any(ratio.variant is Variant.CIRCULANT for ratio in graph.facts.ratios):
            yield (
                "block_circulant: operations, at the rate of the recorded layers; run `paceline "
                "measure --for RUN --out FILE`, and predict with --calibration FILE"
            )

    def remaking(self) -> "Remaking":
        from paceline.runtime.layers import Remaking
        from paceline.runtime.layers.torch_circulant_kernels import nearest

        return Remaking(lambda weight: nearest(weight, self.block))


def _counted(shape: tuple[int, ...], k: int) -> float:
    """Operations with blocks of k as a multiple of those of the dense weight; of a weight that does
    not divide, as if it were filled up."""
    rows, columns, *window = shape
    places = prod(window)
    return operations(-(-rows // k), -(-columns // k), k, places) / (2 * rows * columns * places)


def _measured(graph: Graph, weight: Parameter) -> tuple[Ratio | None, Ratio | None]:
    """Of the layer's kind, forward and backward."""
    known = ratios_of(graph, Variant.CIRCULANT)
    name = "Conv2d" if weight.role is Role.CONVOLUTION_WEIGHT else "Linear"
    return known.get(name), known.get(f"{name} backward")
