"""Cycles of a graph, where recorded lane order and the joining of instances count as links."""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from paceline.engine import native, replaying
from paceline.graph.graph import Graph, Int32
from paceline.graph.kinds import NONE, Discipline


def find_cycle(graph: Graph) -> Sequence[int]:
    """The ops of one cycle, each waiting for the one before it; empty where there is none."""
    core = replaying()
    if core is None:
        return find_cycle_reference(graph)
    found: list[int] = core.compile(*structure(graph), False).cycle.tolist()
    return found


def structure(graph: Graph) -> list[np.ndarray]:
    """The columns that the native core compiles."""
    ops, deps, drains = graph.ops, graph.deps, graph.drains
    columns = (ops.lane, ops.instance, deps.ptr, deps.src, deps.kind)
    return [
        np.ascontiguousarray(c) for c in (*columns, graph.lanes.discipline, drains.op, drains.lane)
    ]


def lane_previous(graph: Graph) -> Int32:
    """For each op the one before it on its RECORDED lane, or NONE."""
    core = native()
    if core is None:
        return lane_previous_reference(graph)
    lane, discipline = graph.ops.lane, graph.lanes.discipline
    found: Int32 = core.lane_previous(np.ascontiguousarray(lane), np.ascontiguousarray(discipline))
    return found


def lane_previous_reference(graph: Graph) -> Int32:
    """The same without the core."""
    ops, lanes = graph.ops, graph.lanes
    order = np.argsort(ops.lane, kind="stable")
    same = ops.lane[order][1:] == ops.lane[order][:-1]
    same &= lanes.discipline[ops.lane[order][1:]] == Discipline.RECORDED
    previous = np.full(len(ops), NONE, np.int32)
    previous[order[1:][same]] = order[:-1][same]
    return previous


def find_cycle_reference(graph: Graph) -> list[int]:
    """The same in plain Python: peel off what waits for nothing, then walk through the rest."""
    waits = _waits(graph)
    instance = graph.ops.instance.tolist()
    stands = _heads(instance)
    missing = [0] * len(waits)
    followers: list[list[int]] = [[] for _ in waits]
    for op, before in enumerate(waits):
        missing[stands[op]] += len(before)
        for src in before:
            followers[stands[src]].append(stands[op])
    ready = deque(op for op, count in enumerate(missing) if not count and stands[op] == op)
    left = set(stands)
    while ready:
        head = ready.popleft()
        left.discard(head)
        for follower in followers[head]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    return _walk(waits, stands, left) if left else []


def _waits(graph: Graph) -> list[list[int]]:
    ptr, src = graph.deps.ptr.tolist(), graph.deps.src.tolist()
    waits = [src[a:b] for a, b in pairwise(ptr)]
    for op, before in enumerate(lane_previous(graph).tolist()):
        if before != NONE:
            waits[op].append(before)
    return waits


def _heads(instance: list[int]) -> list[int]:
    """The op that stands for each op: the first of its instance, or itself."""
    first: dict[int, int] = {}
    return [op if i == NONE else first.setdefault(i, op) for op, i in enumerate(instance)]


def _walk(waits: list[list[int]], stands: list[int], left: set[int]) -> list[int]:
    """Follow what unordered ops wait for until an instance or op comes again."""
    members: dict[int, list[int]] = {}
    for op, head in enumerate(stands):
        members.setdefault(head, []).append(op)
    path: list[int] = []
    seen: dict[int, int] = {}
    op = min(left)
    while stands[op] not in seen:
        seen[stands[op]] = len(path)
        path.append(op)
        for member in [op, *members[stands[op]]]:
            blocked = [src for src in waits[member] if stands[src] in left]
            if blocked:
                if member != op:
                    path.append(member)
                op = blocked[0]
                break
    return path[seen[stands[op]] :][::-1]
