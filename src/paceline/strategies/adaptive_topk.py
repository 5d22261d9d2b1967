"""Top-k with a share for each bucket: the longer its transfer, the fewer of its gradients travel.
Tang et al., "FusionLLM: A Decentralized LLM Training System" (2024), its AdaTopK.

The bucket with the longest transfer sends `ratio`, others `ratio` times the longest transfer over
their own, at most `most`. A plan carries the shares (`ratios`, in the order in which buckets are
handed over; the last for all behind it): `choices` proposes them by bytes, as on links that are
alike, and `shares_on` by the slowest link of each group of a cluster. Wrong where transfers in the
run differ from the estimated ones, and where topk is.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.cluster import Cluster
from paceline.cost import Rates, prices
from paceline.graph import Graph
from paceline.graph.buckets import Bucket, Needs, buckets_of
from paceline.graph.gradients import reducing
from paceline.graph.links import Links
from paceline.runtime.codecs import Sparse as Compressor
from paceline.runtime.codecs import kept
from paceline.strategies.sparse import Sparse
from paceline.strategies.strategy import StrategyError

MOST = 0.25
"""Half of the gradients, each with its place, take as many bytes as all of them without."""


@dataclass(frozen=True)
class AdaptiveTopK(Sparse):
    ratios: tuple[float, ...] = ()  # by bucket; empty: `ratio` of each

    def __post_init__(self) -> None:
        super().__post_init__()
        for ratio in self.ratios:
            if not isinstance(ratio, (int, float)) or not 0 < ratio <= 1:
                raise StrategyError(f"ratios holds {ratio!r}; give numbers above 0, to 1")

    def calls(self, bucket: Bucket) -> tuple[int, ...]:
        counts = bucket.counts if self.layerwise else (bucket.count,)
        share = self._shares[min(bucket.index, len(self._shares) - 1)]
        return (sum(8 * kept(count, share) for count in counts),)

    def compressor(self) -> Compressor:
        from paceline.runtime.codecs.torch_topk import TopKByBucket

        return TopKByBucket(self._shares)

    @classmethod
    def choices(cls, graph: Graph) -> "Iterator[AdaptiveTopK]":
        links = Links.of(graph)
        calls = reducing(graph, links)
        found = buckets_of(graph, links, calls, Needs.COUNT)
        if not found:
            return
        times = ((bucket.index, float(bucket.count)) for bucket in found)
        yield cls(ratios=shares(_longest(times), cls.ratio))

    @property
    def _shares(self) -> tuple[float, ...]:
        return self.ratios or (self.ratio,)


def shares_on(
    graph: Graph, cluster: Cluster, ratio: float = 0.01, rates: Rates | None = None
) -> AdaptiveTopK:
    """The strategy for this job on this cluster. A bucket takes as long as in the slowest of the
    groups that reduce one."""
    links = Links.of(graph)
    calls = reducing(graph, links)
    found = buckets_of(graph, links, calls, Needs.COUNT)
    took = prices(graph, cluster, rates).dur_ns[calls].tolist()
    times = _longest((bucket.index, time) for bucket, time in zip(found, took))
    return AdaptiveTopK(ratio=ratio, ratios=shares(times, ratio))


def shares(times: Sequence[float], ratio: float, most: float = MOST) -> tuple[float, ...]:
    """AdaTopK: the share of a bucket falls with its transfer's time, from `most` to `ratio`."""
    if not len(times) or min(times) < 0:
        raise StrategyError("the job reduces no gradients in buckets, so there are no shares")
    longest = np.float64(max(times))
    found = [max(ratio, most) if time <= 0 else ratio * longest / time for time in times]
    return tuple(round(float(min(share, max(ratio, most))), 6) for share in found)


def _longest(times: Iterable[tuple[int, float]]) -> list[float]:
    """By the bucket's place, over all ranks, steps and groups."""
    found: dict[int, float] = defaultdict(float)
    for place, time in times:
        found[place] = max(found[place], time)
    return [found[place] for place in sorted(found)]
