"""`fully_sharded`: replicas keep a part of each weight, and gather those of a block for its passes.

As FSDP2 does: the weights of a block are gathered before its forward and again before its backward
pass, and its gradients are reduced to those who keep them behind the last of them. What lies
outside of blocks is gathered once, before all else. On threads each call is waited for, since gloo
blocks, and a rank adds up what the others send it of its part; on a device the block's first kernel
waits for its weights, and reductions run beside the pass. Each rank then updates its part.
"""

from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.fully_sharded.calls import Calls, blocks_of, calls_of, on_device
from paceline.graph.fully_sharded.memory import with_gathered
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE, UNPRICED, Collective, DepKind, OpKind, Phase
from paceline.graph.links import Links
from paceline.graph.new_calls import PLAIN, group_sizes, handed_ns, instances
from paceline.graph.rebucket.copies import copies_of, exchange_of
from paceline.graph.rebucket.source import Source, source_of
from paceline.graph.scaled import scaled, works
from paceline.graph.splice import Sort, in_turn, spliced

_NAMES = ("pack a block", "hand over a block", "gather weights", "reduce gradients",
          "wait for a block", "unpack a block", "add up a block")  # fmt: skip


def fully_sharded(graph: Graph) -> Graph:
    """The graph of a job under DDP, with weights, gradients and update cut among its replicas."""
    if graph.facts.update_shards > 1:
        raise GraphError(
            "each rank of this job updates a part of the parameters already, so weights are not "
            "cut again; record the plain job"
        )
    source = source_of(graph)
    members = _members(graph, source)
    blocks = blocks_of([parameter.layer for parameter in graph.facts.parameters])
    if not any(blocks):
        raise GraphError(
            "its model numbers no blocks (as in layers.3), so that all weights would be gathered "
            "at once; number what repeats, or leave fully_sharded out"
        )
    calls = calls_of(graph, replace(source, size_bytes=_padded(graph, members)), blocks)
    less = scaled(graph, (graph.ops.phase == Phase.UPDATE) & works(graph), 1 / members)
    less = scaled(less, source.back.work, 0.0)  # gradients are not copied back
    made = _changed(replace(less, memory=with_gathered(less, calls)), source, calls, members)
    held = (replace(h, weight_shards=members, communication=0) for h in graph.facts.memory)
    facts = replace(made.facts, update_shards=members, memory=tuple(held))
    return replace(made, facts=facts)


def _members(graph: Graph, source: Source) -> int:
    counts = group_sizes(graph, source)
    if len(counts) != 1 or counts == {1}:
        raise GraphError(
            f"its replicas are groups of {sorted(counts)} ranks; weights are cut among groups of "
            "one size, of 2 or more"
        )
    return counts.pop()


def _padded(graph: Graph, members: int) -> Int64:
    """Bytes of each parameter in a gather: of all ranks as many rows as of the one with most."""
    found = [
        each.size_bytes // each.shape[0] * members * -(-each.shape[0] // members)
        if each.shape
        else each.size_bytes
        for each in graph.facts.parameters
    ]
    return np.array(found, np.int64)


def _changed(graph: Graph, source: Source, calls: Calls, members: int) -> Graph:
    gone = exchange_of(source, copies_of(graph, source))
    every = np.arange(len(calls))
    waits = every[:0] if on_device(graph) else every
    added_up = calls.feeds[waits] != NONE
    gathers, sums = waits[~added_up], waits[added_up]
    touched = np.where(calls.feeds == NONE, 2 * calls.size_bytes // members, 2 * calls.size_bytes)
    sorts = [
        _on_thread(graph, calls, waits, _Role(OpKind.COMPUTE, 0, 0, UNPRICED, touched)),
        _on_thread(graph, calls, every, _Role(OpKind.HOST, 1, 1, _hosted_ns(graph, source, calls))),
        _collectives(graph, source, calls),
        _on_thread(graph, calls, waits, _Role(OpKind.WAIT, 3, 4)),
        _on_thread(
            graph, calls, gathers, _Role(OpKind.COMPUTE, 4, 5, UNPRICED, 2 * calls.size_bytes)
        ),
        _on_thread(
            graph,
            calls,
            sums,
            _Role(OpKind.COMPUTE, 4, 6, UNPRICED, calls.size_bytes * (members + 3) // members),
        ),
    ]
    added, (_, host, call, wait, _, _) = in_turn(len(graph), sorts)
    read, reduces = calls.reader != NONE, np.flatnonzero(calls.feeds != NONE)
    update = source.back.update[calls.step[reduces]]
    awaited = update != NONE
    into, by = _fed(graph, source, calls, reduces)
    made = Links.by_kind(
        [
            (DepKind.GRADIENT, call[into], by),
            (DepKind.LAUNCH, call, host),
            (DepKind.WAIT, wait, call[waits]),
            (DepKind.EVENT, calls.reader[read], call[read]),
            (DepKind.GRADIENT, update[awaited], call[reduces[awaited]]),
        ]
    )
    named = replace(graph, names=(*graph.names, *_NAMES))
    return spliced(named, gone, added, source.links.joined(made))


def _hosted_ns(graph: Graph, source: Source, calls: Calls) -> Int64:
    """What a thread takes to hand each call over; where ranks compute on processors, with what
    FSDP2 does around it. Kernels hide that on a device."""
    handed = np.full(len(calls), handed_ns(graph, source))
    host = graph.facts.block_host
    if host is None or on_device(graph):
        return handed
    gathers = calls.kind == Collective.ALL_GATHER
    block = np.where(gathers, host.gather_ns, host.reduce_ns)
    weight = np.where(gathers, host.gathered_weight_ns, host.reduced_weight_ns)
    return handed + np.rint(block + weight * calls.weights).astype(np.int64)


@dataclass(frozen=True)
class _Role:
    """What a thread does for a call."""

    kind: OpKind
    part: int  # in the order in which a call's ops stand
    name: int  # in `_NAMES`
    dur_ns: int | Int64 = 0  # by call
    touches: Int64 | None = None  # bytes, by call


def _on_thread(graph: Graph, calls: Calls, chosen: Int64, role: _Role) -> Sort:
    like = calls.thread[chosen]
    columns = {
        "like": like,
        "behind": calls.behind[chosen],
        "kind": role.kind,
        "dur_ns": np.broadcast_to(role.dur_ns, len(calls))[chosen],
        "lane": graph.ops.lane[like],
        "size_bytes": 0 if role.touches is None else role.touches[chosen],
        "collective": Collective.NONE,
        "group": NONE,
        "instance": NONE,
        "name": len(graph.names) + role.name,
        "layer": NONE,
        "phase": Phase.COMMUNICATION if role.touches is None else graph.ops.phase[like],
    }
    return Sort(_PARTS * chosen + role.part, {**columns, **PLAIN})


_PARTS = 5


def _collectives(graph: Graph, source: Source, calls: Calls) -> Sort:
    like = source.first[calls.step]
    gathers = calls.kind == Collective.ALL_GATHER
    columns = {
        "like": like,
        "behind": calls.behind,
        "kind": OpKind.COLLECTIVE,
        "dur_ns": UNPRICED,
        "lane": graph.ops.lane[like],
        "size_bytes": calls.size_bytes,
        "collective": calls.kind,
        "group": graph.ops.group[like],
        "instance": instances(graph, source, calls.step, calls.place),
        "name": len(graph.names) + np.where(gathers, 2, 3),
        "layer": NONE,
        "phase": Phase.COMMUNICATION,
    }
    return Sort(_PARTS * np.arange(len(calls)) + 2, {**columns, **PLAIN})


def _fed(graph: Graph, source: Source, calls: Calls, reduces: Int64) -> tuple[Int64, Int64]:
    """Reductions and the ops that ready the gradients which go into them: one row a pair."""
    blocks = list(blocks_of([each.layer for each in graph.facts.parameters]).values())
    into, by = [], []
    for block, parameters in enumerate(blocks):
        mine = reduces[calls.feeds[reduces] == block]
        ready = source.ready[calls.step[mine]][:, parameters]
        into.append(np.repeat(mine, len(parameters)))
        by.append(ready.reshape(-1))
    all_into, all_by = np.concatenate(into), np.concatenate(by)
    there = all_by != NONE
    return all_into[there], all_by[there]


__all__ = ["blocks_of", "fully_sharded"]
