"""`GraphNetwork`: what is trained on a graph in parts, and how parts exchange their borders."""

from dataclasses import dataclass
from enum import Enum

from paceline.learn.errors import LearnError

_BITS = (1, 2, 4, 8, 32)


class GraphConvolution(Enum):
    """Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks" (2017);
    Hamilton et al., "Inductive Representation Learning on Large Graphs" (2017), mean aggregation.
    """

    GCN = "gcn"
    SAGE = "sage"


@dataclass(frozen=True)
class GraphNetwork:
    """Full-graph training. `bits` a number of halos (32: as they are); one bit may say which of a
    row's two `means` comes nearer, else rows are rounded at random. With `stale`, layers take
    the halos that were sent in the epoch before, but for every `stale`-th epoch, which waits
    (bounded staleness; 0: every epoch waits)."""

    layer: GraphConvolution = GraphConvolution.GCN
    hidden: int = 128
    layers: int = 3
    lr: float = 0.01
    bits: int = 32
    means: bool = False
    stale: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.bits not in _BITS:
            raise LearnError(f"{self.bits} bits were asked for; give one of {_BITS}")
        if self.means and self.bits != 1:
            raise LearnError(f"two means are told apart by 1 bit, not by {self.bits}")
        if min(self.hidden, self.layers) < 1 or self.stale < 0 or not self.lr > 0:
            raise LearnError(f"{self}: hidden, layers and lr are above 0, stale is 0 or more")

    def waits(self, epoch: int) -> bool:
        """Whether an epoch waits for its halos."""
        return not self.stale or epoch % self.stale == 0

    def widths(self, features: int, classes: int) -> tuple[int, ...]:
        return (features, *[self.hidden] * (self.layers - 1), classes)
