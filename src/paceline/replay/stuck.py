"""The error of a replay that cannot go on: ops wait for each other for ever."""

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PacelineError, ReplayError
from paceline.graph import Graph
from paceline.graph.cycles import find_cycle
from paceline.graph.graph import Int64
from paceline.graph.law import cycle_error

_SHOWN = 6


def stuck(graph: Graph, ended: NDArray[np.bool_], ready_ns: Int64) -> PacelineError:
    """Names a cycle where there is one, else the ops that hold their lanes and never start."""
    if len(cycle := find_cycle(graph)):
        return cycle_error(graph, cycle)
    waiting = np.flatnonzero(~ended & (ready_ns >= 0))
    named = waiting if len(waiting) else np.flatnonzero(~ended)
    names = ", ".join(str(graph[int(op)]) for op in named[:_SHOWN])
    return ReplayError(
        f"replay is stuck: {int((~ended).sum())} of {len(graph)} ops can never end. "
        f"{'Waiting on their lanes' if len(waiting) else 'Never ready'}: {names}"
        f"{', ...' if len(named) > _SHOWN else ''}. Ranks must reach the members of their "
        "collectives in one order: check priorities, drains and links."
    )
