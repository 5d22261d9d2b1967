"""`reordered`: the same ops in another order of ids, which is that of queues."""

from dataclasses import replace
from typing import Any

import numpy as np

from paceline.graph.copying import rows_of, spread_of
from paceline.graph.graph import Graph, Int64
from paceline.graph.links import Links


def reordered(graph: Graph, order: Int64) -> Graph:
    """The graph whose op k is the old op `order[k]`; every op once. Links stay as they were."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return replace(
        graph,
        ops=rows_of(graph.ops, order),
        deps=Links.of(graph).moved(place).columns(len(order)),
        drains=_of_ops(graph.drains, place),
        memory=_of_ops(graph.memory, place),
        spread=None if graph.spread is None else spread_of(graph.spread, order),
    )


def _of_ops(table: Any, place: Int64) -> Any:
    """Drains or memory events, which go with their ops."""
    op = place[table.op]
    by_op = np.argsort(op, kind="stable")
    return replace(rows_of(table, by_op), op=op[by_op].astype(np.int32))
