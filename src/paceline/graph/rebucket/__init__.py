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
from paceline.graph.copy_back import copies_back
from paceline.graph.gradients import Gradients, gradients_of, not_told, ready_orders, reducing
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, DepKind
from paceline.graph.links import Links
from paceline.graph.rank_steps import RankSteps
from paceline.graph.rebucket.copies import copied_back, copies_of
from paceline.graph.rebucket.exchange import calls, hosts
from paceline.graph.rebucket.rows import Buckets, Rows, rows_of
from paceline.graph.rebucket.source import Source
from paceline.graph.splice import in_turn, spliced

_Cuts = tuple[tuple[int, tuple[tuple[int, ...], ...]], ...]
_known: WeakKeyDictionary[Graph, WeakValueDictionary[_Cuts, Graph]] = WeakKeyDictionary()
"""As long as somebody has it: limits that cut alike give one and the same graph, and what plans do
to it behind that is done once."""


def rebucketed(graph: Graph, cut: Callable[[Sequence[int]], Buckets]) -> Graph:
    """The graph with other buckets on every rank, in every step. `cut` puts parameters, given in
    the order in which they are ready, into buckets, which are handed over in turn."""
    links = Links.of(graph)
    old = reducing(graph, links)
    if not len(old):
        raise GraphError(
            "the recording does not say which collectives reduce gradients, so its buckets cannot "
            "be changed. Record a job under DDP with `paceline record`, and change buckets before "
            "the exchange."
        )
    found = gradients_of(graph)
    buckets = _buckets(graph, old, found, cut)
    known = _known.setdefault(graph, WeakValueDictionary())
    cuts = tuple((group, tuple(map(tuple, each))) for group, each in buckets.items())
    made = known.get(cuts)
    if made is None:
        source = Source(graph, links, found, old, RankSteps.of(graph))
        made = known[cuts] = _changed(source, rows_of(source, buckets))
    return made


def _buckets(
    graph: Graph, old: Int64, found: Gradients, cut: Callable[[Sequence[int]], Buckets]
) -> dict[int, Buckets]:
    """By group of replicas: cut as on its first rank, for all must agree."""
    orders = ready_orders(graph, found)
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
        if rank not in orders:
            raise not_told()
        if group not in made:
            made[group] = cut(orders[rank])
    return made


def _changed(source: Source, rows: Rows) -> Graph:
    graph, links = source.graph, source.links
    back = copies_back(graph, links, source.whose, source.steps.step)
    launches, of = source.handed.launches_of(source.whose)
    copies = copies_of(source, back)
    gone = source.whose != NONE
    gone[launches] = True
    gone[copies.work] = True
    handed = source.launcher(rows.last)
    called, handing = hosts(source, rows, handed, (launches, of))
    waiting, waits, copying = copied_back(source, rows, copies)
    sorts = [handing, calls(source, rows), waits, copying]
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
    return spliced(graph, gone, added, links.joined(made))


__all__ = ["Buckets", "rebucketed"]
