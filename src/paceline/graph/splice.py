"""`spliced`: a graph with some ops taken out and others put in, all at once.

Links of what is taken out go with it: the caller says what links the new ops have. (An `Overlay`
bridges them instead, one op at a time.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.graph.copying import rows_of, spread_of
from paceline.graph.graph import Bool, Graph, Int64, OpColumns, Spread
from paceline.graph.kinds import NONE
from paceline.graph.links import Links
from paceline.graph.rank_steps import numbered


@dataclass(frozen=True, eq=False)
class Added:
    """New ops. Op k of them has the id `len(graph) + k` until the graph is made."""

    like: Int64  # the op whose columns each has where `columns` does not say otherwise
    behind: Int64  # the op behind which it stands in id order
    columns: Mapping[str, Any]  # values by column, one each or one for all


@dataclass(frozen=True, eq=False)
class Sort:
    """New ops of one sort."""

    turn: Int64  # in whose order they stand among all new ones
    columns: Mapping[str, Any]  # as in `Added`, with `like` and `behind`; a number is for all


def in_turn(count: int, sorts: Sequence[Sort]) -> tuple[Added, list[Int64]]:
    """New ops of several sorts together, for a graph of so many ops; and the ids of each sort."""
    order = np.argsort(np.concatenate([sort.turn for sort in sorts]), kind="stable")
    ids = np.empty(len(order), np.int64)
    ids[order] = count + np.arange(len(order))
    columns = {
        name: np.concatenate([_full(sort.columns[name], len(sort.turn)) for sort in sorts])[order]
        for name in sorts[0].columns
    }
    like, behind = columns.pop("like"), columns.pop("behind")
    borders = np.cumsum([len(sort.turn) for sort in sorts])[:-1]
    return Added(like, behind, columns), np.split(ids, borders)


def _full(values: Any, count: int) -> Int64:
    return np.full(count, values, np.int64) if isinstance(values, int) else np.asarray(values)


def spliced(graph: Graph, gone: Bool, added: Added, links: Links) -> Graph:
    """`links` are all links of the new graph, in old ids and those of `Added`."""
    count = len(graph)
    ids = _ids(gone, added)
    place = placed(gone, added)
    source = np.concatenate([np.arange(count), added.like])[ids]
    there = (place[links.op] != NONE) & (place[links.src] != NONE)
    return replace(
        graph,
        ops=_columns(graph, added, source, place),
        deps=links.where(there).moved(place).columns(len(ids)),
        drains=_events(graph.drains, place),
        memory=_events(graph.memory, place),
        spread=None if graph.spread is None else _spread(graph.spread, source, ids < count),
    )


def placed(gone: Bool, added: Added) -> Int64:
    """The new id of each op by its old one or that of `Added`; NONE where it is taken out."""
    ids = _ids(gone, added)
    place = np.full(len(gone) + len(added.like), NONE, np.int64)
    place[ids] = np.arange(len(ids))
    return place


def _ids(gone: Bool, added: Added) -> Int64:
    """All ops that there are in the end, in order."""
    kept = np.flatnonzero(~gone)
    order = np.argsort(np.concatenate([kept, added.behind]), kind="stable")
    return np.concatenate([kept, len(gone) + np.arange(len(added.like))])[order]


def _columns(graph: Graph, added: Added, source: Int64, place: Int64) -> OpColumns:
    new = place[len(graph) :]
    made = {name: column[source] for name, column in vars(graph.ops).items()}
    for name, values in added.columns.items():
        made[name][new] = values
    joined = made["instance"] != NONE
    made["instance"][joined] = numbered(made["instance"][joined])[1]
    return OpColumns(**made)


def _events(table: Any, place: Int64) -> Any:
    """Ops that stay keep their order, so what they do does too."""
    op = place[table.op]
    kept = op != NONE
    left = table if kept.all() else rows_of(table, np.flatnonzero(kept))
    return replace(left, op=op[kept].astype(np.int32))


def _spread(spread: Spread, source: Int64, old: Bool) -> Spread:
    """Samples of the ops that stay; new ones have none."""
    count = np.diff(spread.ptr)[source] * old
    found = spread_of(spread, source[old])
    ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return Spread(ptr, found.samples_ns)
