"""`Coded`: what strategies share that send gradients in another form."""

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.kinds import DType
from paceline.graph.packing import Packing, packed
from paceline.runtime.codecs import Codec, Sharing
from paceline.runtime.run import Run
from paceline.strategies.strategy import Effect, Strategy, name_of

CODECS = frozenset({"bf16", "fp16", "int8", "onebit", "random_block", "threshold", "topk"})


class Coded(Strategy):
    """Compress before the collective, restore behind it. Change buckets before, in a plan."""

    effect: ClassVar[Effect] = Effect.LOSSY
    conflicts: ClassVar[frozenset[str]] = CODECS | {"parameter_server"}
    applies: ClassVar[bool] = True
    sharing: ClassVar[Sharing] = Sharing.GATHER
    feedback: ClassVar[bool] = True  # what a step leaves out is added to the next gradient
    wire: ClassVar[DType] = DType.UINT8  # what the payload is made of

    @abstractmethod
    def payload_bytes(self, count: int) -> int:
        """What a rank hands over for so many gradients."""

    @abstractmethod
    def codec(self) -> Codec:
        """The same for a live job; needs torch."""

    def transform(self, graph: Graph) -> Graph:
        gathers = self.sharing is Sharing.GATHER
        name = name_of(type(self))
        return packed(graph, Packing(name, self.wire, gathers, self.feedback, self.payload_bytes))

    def apply(self, run: Run) -> AbstractContextManager[None]:
        return run.exchange.with_codec(self.codec())
