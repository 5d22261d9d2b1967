"""`rebucketed`: gradients put together into other buckets, as DDP would.

A bucket's all-reduce is handed over behind its last gradient, and behind the buckets before it. At
the end of backward the thread waits for the buckets in turn and copies each one back; the copies
share the time that they took in the recording by their bytes. On a device the work behind the wait
stays in one piece. All ranks and steps are changed at once, column by column.
"""

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from paceline.errors import GraphError
from paceline.graph.gradients import not_told
from paceline.graph.graph import Graph
from paceline.graph.kinds import NONE, DepKind
from paceline.graph.links import Links
from paceline.graph.rebucket.copies import copied_back, copies_of, exchange_of
from paceline.graph.rebucket.exchange import calls, hosts
from paceline.graph.rebucket.rows import BucketRows, Buckets, rows_of
from paceline.graph.rebucket.source import Source, source_of
from paceline.graph.splice import in_turn, spliced

_Cuts = tuple[tuple[int, tuple[tuple[int, ...], ...]], ...]
_known: WeakKeyDictionary[Graph, WeakValueDictionary[_Cuts, Graph]] = WeakKeyDictionary()
"""As long as somebody has it: limits that cut alike give one and the same graph, and what plans do
to it behind that is done once."""


def rebucketed(graph: Graph, cut: Callable[[Sequence[int]], Buckets]) -> Graph:
    """The graph with other buckets on every rank, in every step. `cut` puts parameters, given in
    the order in which they are ready, into buckets, which are handed over in turn."""
    source = source_of(graph)
    buckets = _buckets(graph, source, cut)
    known = _known.setdefault(graph, WeakValueDictionary())
    cuts = tuple((group, tuple(map(tuple, each))) for group, each in buckets.items())
    made = known.get(cuts)
    if made is None:
        made = known[cuts] = _changed(graph, source, rows_of(source, buckets))
    return made


def _buckets(
    graph: Graph, source: Source, cut: Callable[[Sequence[int]], Buckets]
) -> dict[int, Buckets]:
    """By group of replicas: cut as on its first rank, for all must agree."""
    old = source.old
    made: dict[int, Buckets] = {}
    groups: dict[int, int] = {}  # by rank
    ranks, of = graph.ops.rank[old].astype(np.int64), graph.ops.group[old]
    _, at = np.unique(ranks * len(graph.groups) + of, return_index=True)
    at.sort()
    for rank, group in zip(ranks[at].tolist(), of[at].tolist()):
        if groups.setdefault(rank, group) != group:
            raise GraphError(
                f"rank {rank} reduces gradients in two groups, and the recording does not say "
                "which parameter belongs to which, so its buckets cannot be changed"
            )
        if rank not in source.orders:
            raise not_told()
        if group not in made:
            made[group] = cut(source.orders[rank])
    return made


def _changed(graph: Graph, source: Source, rows: BucketRows) -> Graph:
    back, copies = source.back, copies_of(graph, source)
    gone = exchange_of(source, copies)
    handed = source.launcher[rows.last]
    called, handing = hosts(graph, source, rows, handed)
    waiting, waits, copying = copied_back(graph, rows, copies)
    sorts = [handing, calls(graph, source, rows), waits, copying]
    added, (host, call, wait, _) = in_turn(len(graph), sorts)
    handed[called] = host
    first, update = copies.first[rows.step], back.update[rows.step]
    shown, updated = (first != NONE) & ~waiting, update != NONE
    made = Links.by_kind(
        [
            (DepKind.GRADIENT, call[rows.fed], rows.by),
            (DepKind.LAUNCH, call, handed),
            (DepKind.WAIT, wait, call[waiting]),
            (DepKind.WAIT, first[shown], call[shown]),
            (DepKind.GRADIENT, update[updated], call[updated]),
        ]
    )
    return spliced(graph, gone, added, source.links.joined(made))


__all__ = ["Buckets", "rebucketed"]
