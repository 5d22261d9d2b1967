"""`updated_late`: each bucket of gradients is waited for, and its parameters are updated, before
the next step's first forward op of a layer that has one of them.

The waits at the end of backward go, and so does the update behind them, whose time the buckets
share by their bytes; on a device each takes a launch of its own. The first step begins
with no update, and what the last one leaves to do is left out. A graph of one step is repeated, for
it has no next.
"""

from collections.abc import Iterator

import numpy as np

from paceline.errors import GraphError
from paceline.graph.condense import STEPS, repeated_alone
from paceline.graph.copying import ragged
from paceline.graph.gradients import no_exchange
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, DepKind, Phase
from paceline.graph.late_update.buckets import Buckets, arriving
from paceline.graph.late_update.moved import Moved, launches, moved_of, waits, work
from paceline.graph.late_update.shares import shares
from paceline.graph.late_update.source import Source
from paceline.graph.links import Links
from paceline.graph.rank_steps import RankSteps, firsts, numbered
from paceline.graph.splice import in_turn, spliced

Rows = tuple[DepKind, Int64, Int64]
"""Links of one kind: ops, and what each waits for."""


def updated_late(graph: Graph) -> Graph:
    """The graph with every update in the step behind its own."""
    once = len(numbered(graph.ops.step)[0]) < 2
    buckets = arriving(graph, Links.of(graph), RankSteps.of(graph))
    if not len(buckets):
        raise no_exchange(
            graph,
            "the recording does not say which collectives carry gradients, so nothing can be "
            "updated as they arrive. Record a job under DDP with `paceline record`.",
        )
    _require_layers(graph, buckets)
    if once:
        graph, buckets = repeated_alone(graph, STEPS), buckets.repeated(STEPS, len(graph))
    return _changed(Source(graph, Links.of(graph), RankSteps.of(graph), buckets))


def _require_layers(graph: Graph, buckets: Buckets) -> None:
    forward = np.unique(graph.ops.layer[graph.ops.phase == Phase.FORWARD])
    known = {graph.text(layer) for layer in forward.tolist()}
    if not any(layers & known for layers in buckets.layers):
        raise GraphError(
            "the recording does not say which op of the forward pass belongs to which layer, so "
            "it is not known when a parameter is needed. Record the job with `paceline record`."
        )


def _changed(source: Source) -> Graph:
    graph, links = source.graph, source.links.where(~source.waits)
    gone = np.zeros(len(graph), np.bool_)
    gone[source.update] = True
    moved = moved_of(source)
    launch = firsts(*_of_kind(source.links, DepKind.LAUNCH), len(graph))[moved.use]
    called = np.flatnonzero(moved.on_stream & (launch != NONE) & (moved.call != NONE))
    threads = np.flatnonzero(~moved.on_stream)
    sorts = [waits(graph, moved, threads), work(graph, moved),
             launches(graph, moved, called, launch[called])]  # fmt: skip
    added, (wait, update, call) = in_turn(len(graph), sorts)
    waiter = update.copy()
    waiter[threads] = wait
    made = Links.by_kind(
        [
            *_brought(source, moved.on_stream, waiter),
            _awaited(links, moved, update),
            (DepKind.LAUNCH, update[called], call),
        ]
    )
    return spliced(graph, gone, added, links.joined(made))


def _brought(source: Source, on_stream: Bool, waiter: Int64) -> Iterator[Rows]:
    """What brings a bucket is waited for: by a thread, or as an event."""
    buckets = source.buckets
    row = np.full(len(buckets), NONE, np.int64)
    row[source.rows] = np.arange(len(source.rows))
    into = row[buckets.of]
    for kind, chosen in ((DepKind.WAIT, ~on_stream), (DepKind.EVENT, on_stream)):
        those = np.append(chosen, False)[into]
        yield kind, waiter[into[those]], buckets.brings[those]


def _awaited(links: Links, moved: Moved, work: Int64) -> Rows:
    """The events for which a stream waits before the op that uses the weights, it now awaits before
    their update."""
    op, src = _of_kind(links, DepKind.EVENT)
    streams = np.flatnonzero(moved.on_stream)
    use = moved.use[streams]
    first = np.searchsorted(op, use)
    count = np.searchsorted(op, use, "right") - first
    return DepKind.EVENT, np.repeat(work[streams], count), src[ragged(first, count)]


def _of_kind(links: Links, kind: DepKind) -> tuple[Int64, Int64]:
    chosen = links.kind == kind
    return links.op[chosen], links.src[chosen]


__all__ = ["shares", "updated_late"]
