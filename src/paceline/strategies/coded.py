"""`Coded`: what strategies share that send gradients in another form.

A strategy built on a file conflicts with whatever names that file: `CODECS` stands for all codecs.
"""

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.kinds import DType
from paceline.graph.packing import Bucket, Needs, Packing, packed
from paceline.runtime.codecs import Codec, Sharing
from paceline.runtime.run import Run
from paceline.strategies.strategy import Effect, Strategy, name_of

CODECS = frozenset({__name__.rpartition(".")[2]})
ONE_ROUND = frozenset({"hierarchical", "partition", "priority"})
"""Ways to exchange a bucket that know one round of it."""


class Coded(Strategy):
    """Compress before the collective, restore behind it. Buckets are changed before."""

    effect: ClassVar[Effect] = Effect.LOSSY
    conflicts: ClassVar[frozenset[str]] = CODECS | {"parameter_server"}
    follows: ClassVar[frozenset[str]] = frozenset(
        {"accumulate", "buckets", "late_gradients", "remodelling"}
    )
    applies: ClassVar[bool] = True
    sharing: ClassVar[Sharing] = Sharing.GATHER
    wire: ClassVar[DType] = DType.UINT8  # what the payload is made of
    in_rounds: ClassVar[bool] = (
        False  # whether a bucket may travel in several, each made of the last
    )
    dense: ClassVar[bool] = True  # whether a payload speaks of every gradient
    feedback: bool = True  # what a step leaves out is added to the next gradient

    @abstractmethod
    def payload_bytes(self, count: int) -> int:
        """What a rank hands over for so many gradients."""

    @abstractmethod
    def codec(self) -> Codec:
        """The same for a live job; needs torch."""

    def calls(self, bucket: Bucket) -> tuple[int, ...]:
        """What a rank hands over for a bucket, in each collective of it."""
        return (self.payload_bytes(bucket.count),)

    def needs(self) -> Needs:
        """What `calls` must know of a bucket."""
        return Needs.COUNT

    def pieces(self, bucket: Bucket) -> tuple[Bucket, ...]:
        """What of a bucket is packed by itself, one behind the other."""
        return (bucket,)

    def packing(self) -> Packing:
        """This codec as a graph sees it."""
        gathers = self.sharing is Sharing.GATHER
        name = name_of(type(self))
        return Packing(
            name,
            self.wire,
            gathers,
            self.feedback,
            self.calls,
            self.needs(),
            pieces=self.pieces,
            in_rounds=self.in_rounds,
            dense=self.dense,
        )

    def transform(self, graph: Graph) -> Graph:
        return packed(graph, self.packing())

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_codec(self.codec())
