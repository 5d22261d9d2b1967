"""Gradients of matrices travel as products of two thin ones, with error feedback. Vogels et al.,
"PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization" (2019).

One step of power iteration from the last step's factor, whose parts are all-reduced: a rank of 4
sends n + m times 16 bytes of an n x m matrix. Small tensors travel whole beside the first part.
Wrong where the two products with thin matrices take longer than the memory's rate tells.
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import DType
from paceline.graph.packing import Bucket, Needs
from paceline.runtime.codecs import Codec, Sharing
from paceline.runtime.codecs.low_rank import Layout
from paceline.strategies.coded import ONE_ROUND, Coded
from paceline.strategies.strategy import StrategyError


@dataclass(frozen=True)
class PowerSGD(Coded):
    conflicts: ClassVar[frozenset[str]] = Coded.conflicts | ONE_ROUND
    sharing: ClassVar[Sharing] = Sharing.SUM
    wire: ClassVar[DType] = DType.FLOAT32
    in_rounds: ClassVar[bool] = True

    rank: int = 4
    feedback: bool = True
    seed: int = 0  # of the first factor

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise StrategyError(f"a rank of {self.rank} was asked for; give 1 or more")

    def payload_bytes(self, count: int) -> int:
        """Of a vector, which travels whole."""
        return 4 * count

    def calls(self, bucket: Bucket) -> tuple[int, ...]:
        return tuple(4 * size for size in Layout.of(bucket.shapes, self.rank).rounds)

    def needs(self) -> Needs:
        return Needs.SHAPES

    def pieces(self, bucket: Bucket) -> tuple[Bucket, ...]:
        """Each matrix; what travels whole is copied in one go."""
        layout = Layout.of(bucket.shapes, self.rank)
        shapes: list[tuple[int, ...]] = [(m.rows, m.columns) for m in layout.matrices]
        if whole := sum(each.count for each in layout.wholes):
            shapes.append((whole,))
        return tuple(Bucket((shape,), bucket.index) for shape in shapes)

    def codec(self) -> Codec:
        from paceline.runtime.codecs.torch_low_rank import LowRank

        return Codec(LowRank(self.rank, self.seed), self.sharing, self.feedback)
