"""What gathered weights take, and for how long."""

import numpy as np

from paceline.graph.buffers import with_buffers
from paceline.graph.fully_sharded.calls import Calls
from paceline.graph.graph import Graph, MemoryEvents
from paceline.graph.kinds import NONE, Collective


def with_gathered(graph: Graph, calls: Calls) -> MemoryEvents:
    """Gathered weights are there from the call on, until its pass is over."""
    gathers = np.flatnonzero((calls.kind == Collective.ALL_GATHER) & (calls.until != NONE))
    taken, left = calls.thread[gathers], calls.until[gathers]
    return with_buffers(graph, taken, left, calls.size_bytes[gathers])
