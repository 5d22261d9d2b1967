"""`Sparse`: what strategies share that send some of the gradients, and settings that all have.

The three parameters of "Sparse Communication for Training Deep Networks" (2020): whether a share of
each parameter or of the whole bucket travels, whether what is left out is remembered, and whether
momentum is the optimizer's, behind the exchange, or accumulated by each worker before it.
"""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from paceline.graph import DType, Graph
from paceline.graph.packing import Bucket, Needs
from paceline.runtime.codecs import Codec, Momentum, kept
from paceline.runtime.codecs import Sparse as Compressor
from paceline.runtime.run import Run
from paceline.strategies.coded import Coded
from paceline.strategies.strategy import Strategy, StrategyError

AFTER, BEFORE = "after", "before"


@dataclass(frozen=True)
class Sparse(Coded):
    wire: ClassVar[DType] = DType.INT32
    dense: ClassVar[bool] = False

    ratio: float = 0.01  # of all gradients
    layerwise: bool = False  # of each parameter; else of a whole bucket
    feedback: bool = True
    momentum: str = AFTER  # the optimizer's own, behind the exchange; "before": each worker's

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise StrategyError(f"a ratio of {self.ratio:g} was asked for; give above 0, to 1")
        if self.momentum not in (AFTER, BEFORE):
            raise StrategyError(f"momentum={self.momentum!r}; give {AFTER!r} or {BEFORE!r}")

    @classmethod
    def choices(cls, graph: Graph) -> "Iterator[Strategy]":
        """Momentum stays the optimizer's where it is not SGD's."""
        for each in super().choices(graph):
            if isinstance(each, Sparse) and each._momentum_of_another(graph):
                each = replace(each, momentum=AFTER)
            yield each

    @abstractmethod
    def compressor(self) -> Compressor:
        """What chooses gradients in a live job; needs torch."""

    def payload_bytes(self, count: int) -> int:
        return 8 * kept(count, self.ratio)

    def calls(self, bucket: Bucket) -> tuple[int, ...]:
        counts = bucket.counts if self.layerwise else (bucket.count,)
        return (sum(map(self.payload_bytes, counts)),)

    def needs(self) -> Needs:
        return Needs.PARTS if self.layerwise else Needs.COUNT

    def pieces(self, bucket: Bucket) -> tuple[Bucket, ...]:
        if not self.layerwise:
            return (bucket,)
        return tuple(Bucket((shape,), bucket.index) for shape in bucket.shapes)

    def codec(self) -> Codec:
        how = self.compressor()
        if self.layerwise:
            from paceline.runtime.codecs.torch_sparse import Layerwise

            how = Layerwise(how)
        return Codec(how, self.sharing, self.feedback)

    def corrected(self, momentum: Momentum) -> Momentum:
        """The optimizer's momentum, as this codec accumulates it on each worker."""
        return momentum

    def transform(self, graph: Graph) -> Graph:
        if self._momentum_of_another(graph):
            assert graph.facts.optimizer is not None
            raise StrategyError(
                f"{self} takes over the momentum of SGD, and this job trains with "
                f"{graph.facts.optimizer.kind}; give momentum={AFTER!r}"
            )
        return super().transform(graph)

    def _momentum_of_another(self, graph: Graph) -> bool:
        trained = graph.facts.optimizer
        return self.momentum == BEFORE and trained is not None and trained.kind != "SGD"

    @contextmanager
    def apply(self, run: Run) -> Iterator[None]:
        if self.momentum == AFTER:
            with super().apply(run):
                yield
            return
        from paceline.runtime.torch_momentum import taken_over

        with taken_over(run.optimizer) as momentum:
            codec: Any = replace(self.codec(), momentum=self.corrected(momentum))
            with run.exchange.with_codec(codec):
                yield
