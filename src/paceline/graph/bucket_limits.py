"""The sizes at which a job's buckets were closed, as far as the buckets themselves tell.

A bucket is closed by the gradient that brings it to its limit: so the limit is above what it held
before, and at most what it holds. Where DDP's own limits lie in between, they are taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.graph.gradients import gradients_of, no_exchange, ready_orders, reducing
from paceline.graph.graph import Graph
from paceline.graph.links import Links

DDP_FIRST, DDP_OTHERS = 1 << 20, 25 << 20
"""Bytes, where a script does not say otherwise."""


@dataclass(frozen=True)
class BucketLimits:
    """Bytes at which the first bucket is closed, and the others."""

    first: int
    others: int


def bucket_limits(graph: Graph) -> BucketLimits:
    """Of the first rank's first step."""
    ops, old = graph.ops, reducing(graph, Links.of(graph))
    orders = ready_orders(graph, gradients_of(graph))
    if not len(old):
        raise no_exchange(
            graph,
            "the job reduces no gradients in buckets, so it has no limits of them; make this "
            "change before one that replaces the exchange of gradients",
        )
    rank = int(ops.rank[old].min())
    mine = old[(ops.rank[old] == rank) & (ops.step[old] == ops.step[old].min())]
    sizes = [graph.facts.parameters[p].size_bytes for p in orders[rank]]
    return limits_of(sizes, ops.size_bytes[mine].tolist())


def limits_of(gradients: Sequence[int], buckets: Sequence[int]) -> BucketLimits:
    """By the bytes of gradients, in the order in which they are ready, and of buckets."""
    held, ends = np.cumsum(gradients), np.cumsum(buckets)
    last = np.minimum(np.searchsorted(held, ends), len(gradients) - 1)
    spans = [
        _Span(size - gradients[at], size if i < len(buckets) - 1 else None)
        for i, (size, at) in enumerate(zip(buckets, last.tolist()))
    ]
    others = _Span.all_of(spans[1:] or spans).nearest(DDP_OTHERS)
    first = spans[0].nearest(DDP_FIRST)
    return BucketLimits(others if spans[0].holds(others) and first != DDP_FIRST else first, others)


@dataclass(frozen=True)
class _Span:
    """A limit lies above `low` and is at most `high`, of which a bucket left open tells nothing."""

    low: int
    high: int | None

    @staticmethod
    def all_of(spans: Sequence["_Span"]) -> "_Span":
        told = [span.high for span in spans if span.high is not None]
        return _Span(max(span.low for span in spans), min(told, default=None))

    def holds(self, limit: int) -> bool:
        return self.low < limit and (self.high is None or limit <= self.high)

    def nearest(self, limit: int) -> int:
        if self.holds(limit):
            return limit
        return self.high if self.high is not None else self.low + 1
