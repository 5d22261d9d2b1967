"""Waiting for a core, taken out of a graph: for a job that is carried to other cores."""

import numpy as np

from paceline.graph.edits import Overlay
from paceline.graph.graph import Graph
from paceline.graph.kinds import OpKind


def without_core_waits(graph: Graph) -> Graph:
    """The graph as if every thread had had a core whenever it was ready: work alone.

    What waited for the wait then waits for the op in front of it. Where cores are shared a model of
    shared cores says anew what the threads wait.
    """
    waits = np.flatnonzero(graph.ops.kind == OpKind.CORE_WAIT)
    if not len(waits):
        return graph
    edits = Overlay(graph)
    edits.remove(waits)
    return edits.freeze()
