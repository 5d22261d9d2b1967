"""`updated_early`: each bucket's parameters are updated as soon as its gradients have arrived,
beside the rest of the backward pass.

The updates of a rank follow one another on a lane of their own and share the time of the recorded
update by their buckets' bytes. The update behind the backward pass takes no more time and waits
for them; what waited for gradients waits for the update that is made of them. On a device the
host's calls stay where they were recorded.
"""

from dataclasses import replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.gradients import no_exchange
from paceline.graph.graph import Graph, Int64, Lanes
from paceline.graph.kinds import NONE, DepKind, Discipline, LaneKind, OpKind, Phase
from paceline.graph.late_update.buckets import Buckets, arriving
from paceline.graph.late_update.shares import shares_of
from paceline.graph.late_update.source import Source
from paceline.graph.links import Links
from paceline.graph.own_lanes import own_lanes
from paceline.graph.rank_steps import RankSteps, firsts, totals
from paceline.graph.scaled import scaled
from paceline.graph.splice import Added, spliced

LANE = "updates"
"""The lane of each rank on which they run."""


def updated_early(graph: Graph) -> Graph:
    """The graph with every bucket's update behind its own exchange."""
    links, steps = Links.of(graph), RankSteps.of(graph)
    buckets = arriving(graph, links, steps)
    if not len(buckets):
        raise no_exchange(
            graph,
            "the recording does not say which collectives carry gradients, so nothing can be "
            "updated as they arrive. Record a job under DDP with `paceline record`.",
        )
    return _changed(Source(graph, links, steps, buckets))


def _changed(source: Source) -> Graph:
    graph, links, buckets = source.graph, source.links, source.buckets
    work = _work(source)
    added, lanes = _updates(source, work)
    row = np.arange(len(graph))
    row[buckets.brings] = len(graph) + buckets.of
    moved = Links(
        links.op, np.where(source.waits, row[links.src], links.src), links.kind, links.inferred
    )
    rows = len(graph) + np.arange(len(buckets))
    made = Links.all_of(
        np.concatenate([rows[buckets.of], added.like]),
        np.concatenate([buckets.brings, rows]),
        DepKind.DATA,
    )
    shortened = replace(scaled(graph, work, 0.0), lanes=lanes)
    return spliced(shortened, np.zeros(len(graph), np.bool_), added, moved.joined(made))


def _work(source: Source) -> Int64:
    """The ops of the recorded updates that do the work: kernels, where there are any."""
    graph, update = source.graph, source.update
    kernel = graph.lanes.kind[graph.ops.lane[update]] == LaneKind.STREAM
    row = source.steps.of_op[update]
    on_device = totals(row, kernel, len(source.steps)) > 0
    found: Int64 = update[kernel | ~on_device[row]]
    return found


def _updates(source: Source, work: Int64) -> tuple[Added, Lanes]:
    """One op for each bucket, and the lanes that then are there."""
    graph, steps, buckets = source.graph, source.steps, source.buckets
    rows, count = steps.of_op[work], len(steps)
    like = firsts(rows, work, count)[buckets.step]
    if (like == NONE).any():
        raise GraphError(
            "the recording does not show which ops update the parameters, so they cannot be "
            "updated earlier. Record the job with `paceline record`."
        )
    whole = totals(rows, np.maximum(graph.ops.dur_ns[work], 0), count)
    lanes, lane = own_lanes(graph, like, LANE, Discipline.PRIORITY)
    columns = {
        "lane": lane,
        "kind": np.full(len(buckets), OpKind.COMPUTE),
        "dur_ns": shares_of(whole, buckets.step, buckets.size_bytes[buckets.held]),
        "phase": np.full(len(buckets), Phase.UPDATE),
        "layer": np.full(len(buckets), NONE),
        "tensor": np.full(len(buckets), NONE),
    }
    return Added(like, _arrived(buckets), columns), lanes


def _arrived(buckets: Buckets) -> Int64:
    """By bucket: the last op that brings a part of it."""
    last = np.full(len(buckets), NONE, np.int64)
    np.maximum.at(last, buckets.of, buckets.brings)
    return last
