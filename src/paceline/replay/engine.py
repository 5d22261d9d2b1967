"""`replay`: a graph in, a timeline out, by the native engine or by the plain-Python reference."""

from enum import Enum

import numpy as np

from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import NONE, UNPRICED, Graph
from paceline.graph.graph import Int64
from paceline.graph.law import check_columns
from paceline.replay.columns import Columns
from paceline.replay.pace import FixedPace
from paceline.replay.program import program
from paceline.replay.reference import replay_reference
from paceline.replay.stuck import stuck
from paceline.replay.timeline import Timeline

LONGEST_NS = 2**62
"""Durations may sum to this much (146 years): no time on a timeline can then overflow int64."""


class Engine(Enum):
    """Who replays: the compiled core, or its specification in plain Python."""

    NATIVE = "native"
    REFERENCE = "reference"


def replay(graph: Graph, *, prices: Int64 | None = None, engine: Engine | None = None) -> Timeline:
    """When every op runs.

    `prices` are durations in ns, one an op, in place of the graph's own (`paceline.cost` finds
    them). Without `engine` the native one is used where it was built, else the reference.
    """
    dur_ns = checked_durations(graph, graph.ops.dur_ns if prices is None else prices)
    run = _native if chosen_engine(engine) is Engine.NATIVE else _reference
    return Timeline(graph, dur_ns, run(graph, dur_ns))


def chosen_engine(engine: Engine | None) -> Engine:
    """The engine asked for; where none was, the native one if it was built."""
    if engine is Engine.NATIVE and native() is None:
        raise ReplayError(
            "engine NATIVE was asked for, but the native core is not built or is turned off. "
            "Install with a C++ compiler, unset PACELINE_ENGINE, or use Engine.REFERENCE."
        )
    return engine or (Engine.NATIVE if native() else Engine.REFERENCE)


def checked_durations(graph: Graph, dur_ns: Int64) -> Int64:
    """The durations, when they can be replayed; else an error that names an op."""
    if dur_ns.shape != (len(graph),) or dur_ns.dtype != np.int64:
        raise ReplayError(
            f"prices have shape {dur_ns.shape} and type {dur_ns.dtype}; "
            f"needed is int64 with one row for each of {len(graph)} ops"
        )
    if not len(graph):
        raise ReplayError("an empty graph cannot be replayed: it has no ops. Record or build one.")
    if dur_ns.min() < 0:
        op = int(np.argmax(dur_ns < 0))
        if dur_ns[op] == UNPRICED:
            raise ReplayError(
                f"{int((dur_ns == UNPRICED).sum())} ops are unpriced, first {graph[op]}: "
                "pass a cluster, or durations from paceline.cost as `prices`"
            )
        raise ReplayError(f"{graph[op]} has duration {dur_ns[op]} ns; it must not be negative")
    if np.sum(dur_ns, dtype=np.float64) >= LONGEST_NS:
        op = int(np.argmax(dur_ns))
        raise ReplayError(
            f"durations sum to 2^62 ns or more and would overflow; the longest is {graph[op]} "
            f"with {dur_ns[op]} ns. Check its unit."
        )
    return np.ascontiguousarray(dur_ns)


def _reference(graph: Graph, dur_ns: Int64) -> Columns:
    check_columns(graph)
    return replay_reference(graph, FixedPace(dur_ns))


def _native(graph: Graph, dur_ns: Int64) -> Columns:
    compiled = program(graph)
    if compiled.by_pull:
        ready, start, end = compiled.pull(dur_ns)
        return Columns(ready, start, end, None, None, np.zeros((0, 2), np.int32))
    priority = np.ascontiguousarray(graph.ops.priority)
    ready, start, end, previous, order, drained, ended = compiled.events(dur_ns, priority)
    if ended < len(graph):
        raise stuck(graph, end != NONE, ready)
    return Columns(ready, start, end, previous, order, drained.reshape(-1, 2))
