"""The error of a replay that cannot go on: ops wait for each other for ever."""

import numpy as np
from numpy.typing import NDArray

from paceline.errors import ReplayError
from paceline.graph import Graph
from paceline.graph.graph import Int64

_SHOWN = 6


def stuck(graph: Graph, ended: NDArray[np.bool_], ready_ns: Int64) -> ReplayError:
    """Names the ops that hold their lanes without ever starting, else those never reached."""
    waiting = np.flatnonzero(~ended & (ready_ns >= 0))
    named = waiting if len(waiting) else np.flatnonzero(~ended)
    names = ", ".join(str(graph[int(op)]) for op in named[:_SHOWN])
    return ReplayError(
        f"replay is stuck: {int((~ended).sum())} of {len(graph)} ops can never end. "
        f"{'Waiting on their lanes' if len(waiting) else 'Never ready'}: {names}"
        f"{', ...' if len(named) > _SHOWN else ''}. Ranks must reach the members of their "
        "collectives in one order: check priorities, drains and links."
    )
