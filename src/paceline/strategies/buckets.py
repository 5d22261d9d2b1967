"""Another size of DDP's gradient buckets, and another order of gradients in them: as they become
ready, cut where a limit is reached. PyTorch's `bucket_cap_mb` (Li et al., VLDB 2020).

A bucket is closed by the gradient with which it reaches its limit. The first bucket's limit is
1 MiB where a script leaves the sizes alone, so that communication starts early; else all are equal.
The order is `ready`, `last use` (the reverse of that in which the model defines its parameters, and
so of their next use), or the names of all parameters with spaces between them. DDP hands buckets
over in turn: one that is ready early waits for those before it.

Wrong where a bucket's size changes how fast the library moves a byte in ways that the cluster's
prices do not know.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from paceline.graph import Graph
from paceline.graph.bucket_limits import BucketLimits
from paceline.graph.rebucket import rebucketed
from paceline.runtime.exchange import READY, Bucketing, arranged
from paceline.runtime.run import Run
from paceline.strategies.strategy import Strategy, StrategyError

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Buckets(Strategy):
    conflicts: ClassVar[frozenset[str]] = frozenset({"buckets", "parameter_server"})
    follows: ClassVar[frozenset[str]] = frozenset({"late_gradients", "sufficient_factors"})
    applies: ClassVar[bool] = True

    size_bytes: int
    first_size_bytes: int = 0  # 0: as large as the others
    order: str = READY

    def __post_init__(self) -> None:
        if self.size_bytes <= 0 or self.first_size_bytes < 0:
            raise StrategyError(
                f"buckets of {self.size_bytes} and first of {self.first_size_bytes} bytes were "
                "asked for; give more than 0"
            )

    def transform(self, graph: Graph) -> Graph:
        sizes = [parameter.size_bytes for parameter in graph.facts.parameters]
        names = [parameter.name for parameter in graph.facts.parameters]
        return rebucketed(
            graph, lambda ready: buckets_of(arranged(ready, names, self.order), sizes, self)
        )

    @classmethod
    def choices(cls, graph: Graph) -> Iterator[Strategy]:
        """From 1 MiB, doubling, to the first that holds all gradients."""
        whole, size_bytes = sum(graph.facts.gradient_bytes().values()), _MIB
        while size_bytes < 2 * whole:
            yield cls(size_bytes)
            size_bytes *= 2

    def apply(self, run: Run) -> AbstractContextManager[None]:
        asked = Bucketing(self.size_bytes, self.first_size_bytes, self.order)
        return run.exchange.with_buckets(asked)


def recut(graph: Graph, limits: BucketLimits) -> Graph:
    """Gradients whose sizes have changed, in buckets of the limits that the job had."""
    return Buckets(limits.others, limits.first).transform(graph)


def buckets_of(
    order: Sequence[int], sizes: Sequence[int], asked: Buckets
) -> tuple[tuple[int, ...], ...]:
    """Parameters of each bucket. `sizes` are by parameter."""
    found: list[tuple[int, ...]] = []
    mine: list[int] = []
    held = 0
    for parameter in order:
        mine.append(parameter)
        held += sizes[parameter]
        first = asked.first_size_bytes if not found else 0
        if held >= (first or asked.size_bytes):
            found.append(tuple(mine))
            mine, held = [], 0
    return (*found, tuple(mine)) if mine else tuple(found)
