"""A random block of each bucket travels, alike on all ranks, the rest waits with error feedback.
Xie et al., "CSER: Communication-efficient SGD with Error Reset" (2020).

No places travel and blocks are reduced, so it scales as all-reduce does and costs hardly any work.
Wrong in nothing that is particular to it. It learns more slowly than top-k at the same ratio, and
what waits grows old: a classifier of Fashion-MNIST under SGD with momentum lost 0.3 points at half
of the gradients, 1.5 at a ratio of 0.3, and diverged at 0.1, as with momentum accumulated before.
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import DType
from paceline.runtime.codecs import Sharing, kept
from paceline.runtime.codecs import Sparse as Compressor
from paceline.strategies.sparse import Sparse


@dataclass(frozen=True)
class RandomBlock(Sparse):
    sharing: ClassVar[Sharing] = Sharing.SUM
    wire: ClassVar[DType] = DType.FLOAT32

    ratio: float = 0.5  # of all gradients
    seed: int = 0

    def payload_bytes(self, count: int) -> int:
        return 4 * kept(count, self.ratio)

    def compressor(self) -> Compressor:
        from paceline.runtime.codecs.torch_random_block import RandomBlock

        return RandomBlock(self.ratio, self.seed)
