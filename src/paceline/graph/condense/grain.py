"""`coarser`: ops that follow one another on a lane as one op, where nothing else can tell.

Merged are runs of work of one phase (and layer) into which nothing outside leads but at their
begin, and out of which nothing leads but at their end. All other ops then run exactly as before.
"""

from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np

from paceline.graph.copying import rows_of
from paceline.graph.graph import Bool, Graph, Int64, MemoryEvents, OpColumns, Spread
from paceline.graph.kinds import NONE, UNPRICED, Discipline, Phase
from paceline.graph.links import Links
from paceline.graph.membership import WORKS, among
from paceline.graph.rank_steps import largest


class Grain(Enum):
    """How fine a condensed step is."""

    OP = "op"  # every recorded op
    LAYER = "layer"  # work of one phase and layer between events as one op
    EVENT = "event"  # work of one phase between events as one op


def coarser(graph: Graph, grain: Grain, keep: Int64 | None = None) -> tuple[Graph, Int64]:
    """The graph at that grain, and of each old op the new one that holds it. Ops in `keep` stay
    ops of their own."""
    if grain is Grain.OP or not len(graph):
        return graph, np.arange(len(graph))
    order = np.argsort(graph.ops.lane, kind="stable")
    joins = _joins(graph, grain, order, np.zeros(0, np.int64) if keep is None else keep)
    heads = np.flatnonzero(~joins)
    place = _place(joins, order)
    return _merged(graph, heads, place), place


def _joins(graph: Graph, grain: Grain, order: Int64, keep: Int64) -> Bool:
    """Which ops go on with what the op before them on their lane began. `order` is that of lanes,
    one behind the other."""
    ops = graph.ops
    before = _before(graph, order)
    links = Links.of(graph)
    led_into = _led_into(graph, links)
    leads_out = _leads_out(graph, links)
    alone = np.ones(len(graph), np.bool_)
    alone[graph.drains.op] = False
    # a drain waits for those that its lane was given
    alone &= ~among(len(graph.lanes), graph.drains.lane)[ops.lane]
    alone[keep] = False
    works = WORKS[ops.kind]
    plain = works & (ops.tensor == NONE) & (ops.dur_ns != UNPRICED)
    plain &= (ops.instance == NONE) & (graph.lanes.discipline[ops.lane] == Discipline.RECORDED)
    plain &= alone
    ends = works & (ops.dur_ns != UNPRICED) & (ops.instance == NONE) & alone
    # a run may end with an op that readies a gradient or hands a call over, and begin with one
    # that waited; inside it nothing does either
    may: Bool = (before != NONE) & ends & ~led_into
    may &= plain[before] & ~leads_out[before]
    if graph.facts.update_shards > 1:  # the host's part of an update is not cut
        may &= (ops.phase != Phase.UPDATE) | (ops.kind == ops.kind[before])
    columns: list[np.ndarray[Any, Any]] = [ops.phase, ops.step, ops.scale_ppb, ops.basis]
    columns += [ops.layer] if grain is Grain.LAYER else []
    for column in columns:
        may &= column == column[before]
    return may


def _before(graph: Graph, order: Int64) -> Int64:
    """The op before each on its lane; NONE for the first."""
    lane = graph.ops.lane[order]
    found = np.full(len(graph), NONE, np.int64)
    same = lane[1:] == lane[:-1]
    found[order[1:][same]] = order[:-1][same]
    return found


def _led_into(graph: Graph, links: Links) -> Bool:
    """Which ops wait for more than what lies before them on their lane."""
    lane = graph.ops.lane
    found = np.zeros(len(graph), np.bool_)
    found[links.op[(lane[links.src] != lane[links.op]) | (links.src > links.op)]] = True
    return found


def _leads_out(graph: Graph, links: Links) -> Bool:
    """Which ops others wait for beside those behind them on their lane."""
    lane = graph.ops.lane
    found = np.zeros(len(graph), np.bool_)
    found[links.src[lane[links.src] != lane[links.op]]] = True
    return found


def _place(joins: Bool, order: Int64) -> Int64:
    """The new op of each old one: that of the last head on its lane."""
    at = np.maximum.accumulate(np.where(~joins[order], np.arange(len(order)), 0))
    new = np.cumsum(~joins) - 1  # of heads
    place = np.empty(len(order), np.int64)
    place[order] = new[order[at]]
    return place


def _merged(graph: Graph, heads: Int64, place: Int64) -> Graph:
    count, drains = len(heads), graph.drains
    links = Links.of(graph).moved(place)
    links = links.where(links.op != links.src)
    return replace(
        graph,
        ops=_ops(graph, rows_of(graph.ops, heads), place, count),
        deps=links.columns(count),
        drains=replace(drains, op=place[drains.op].astype(np.int32)),  # ops that drain stay alone
        memory=_moved(graph.memory, place),
        spread=_spread(graph, place, count),
    )


def _ops(graph: Graph, heads: OpColumns, place: Int64, count: int) -> OpColumns:
    """Sums of the runs; each is called what its longest op is, and readies what its last does."""
    ops = graph.ops
    longest = largest(place, ops.dur_ns, count)
    last = np.empty(count, np.int64)
    last[place] = np.arange(len(graph))  # ids rise along a lane: the last one stays
    several = np.bincount(place, minlength=count) > 1
    dur, flops, size = (
        np.bincount(place, column, count).astype(np.int64)
        for column in (np.maximum(ops.dur_ns, 0), ops.flops, ops.size_bytes)
    )
    return replace(
        heads,
        kind=np.where(several, ops.kind[longest], heads.kind).astype(np.uint8),
        dur_ns=np.where(several, dur, heads.dur_ns),
        flops=np.where(several, flops, heads.flops),
        size_bytes=np.where(several, size, heads.size_bytes),
        name=np.where(several, ops.name[longest], heads.name).astype(np.int32),
        layer=np.where(several, ops.layer[longest], heads.layer).astype(np.int32),
        tensor=ops.tensor[last],
        work=np.where(several, NONE, heads.work).astype(np.int32),
    )


def _moved(memory: MemoryEvents, place: Int64) -> MemoryEvents:
    op = place[memory.op].astype(np.int32)
    order = np.argsort(op, kind="stable")
    return MemoryEvents(
        op[order],
        memory.device[order],
        memory.delta_bytes[order],
        memory.category[order],
        memory.at_end[order],
    )


def _spread(graph: Graph, place: Int64, count: int) -> Spread | None:
    """Samples of a run: the sums of its ops' samples, where all that vary have as many."""
    if graph.spread is None:
        return None
    sizes = np.diff(graph.spread.ptr)
    width = int(sizes.max(initial=0))
    if not width or not np.isin(sizes, (0, width)).all():
        return _of_heads(graph.spread, place, count)
    rows = np.repeat(np.maximum(graph.ops.dur_ns, 0)[:, None], width, axis=1)
    rows[sizes == width] = graph.spread.samples_ns.reshape(-1, width)
    table = np.zeros((count, width), np.int64)
    np.add.at(table, place, rows)
    sampled = np.bincount(place, sizes > 0, count) > 0
    ptr = np.concatenate([[0], np.cumsum(np.where(sampled, width, 0))]).astype(np.int64)
    return Spread(ptr, table[sampled].reshape(-1))


def _of_heads(spread: Spread, place: Int64, count: int) -> Spread:
    """Samples of ops that stayed alone; runs have none."""
    alone = np.bincount(place, minlength=count)[place] == 1
    sizes = np.where(alone, np.diff(spread.ptr), 0)
    kept = np.repeat(alone, np.diff(spread.ptr))
    found = np.bincount(place, sizes, count).astype(np.int64)
    order = np.argsort(np.repeat(place, sizes), kind="stable")
    ptr = np.concatenate([[0], np.cumsum(found)]).astype(np.int64)
    return Spread(ptr, spread.samples_ns[kept][order])
