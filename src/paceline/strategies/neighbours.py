"""Calls of one operator that one of another follows on its lane."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from paceline.cost.operators import OperatorClass, classes_of
from paceline.graph import Graph, Phase
from paceline.graph.graph import Bool, Int64

Run = list[int]  # rows of one operator's call


def followed(graph: Graph, phase: Phase, first: str, second: str) -> Iterator[tuple[Run, Run]]:
    """Pairs of calls. What works under no known name stands in between unseen."""
    for runs in calls(graph, phase):
        for (one, before), (other, behind) in pairwise(runs):
            if one == first and other == second:
                yield before, behind


def calls(graph: Graph, phase: Phase) -> Iterator[list[tuple[str, Run]]]:
    """Of each lane the calls of known operators in their order, with their names."""
    ops = graph.ops
    among = (ops.phase == phase) & (classes_of(graph) != OperatorClass.OTHER)
    for lane in np.unique(ops.lane[among]).tolist():
        yield list(_runs(graph, np.flatnonzero(among & (ops.lane == lane))))


def marked(graph: Graph, *runs: Run) -> Bool:
    """The rows of all these calls."""
    found = np.zeros(len(graph), np.bool_)
    for run in runs:
        found[run] = True
    return found


def _runs(graph: Graph, rows: Int64) -> Iterator[tuple[str, Run]]:
    """Neighbours of one name in one layer belong to one call."""
    name, layer = graph.ops.name[rows], graph.ops.layer[rows]
    new = (np.diff(name) != 0) | (np.diff(layer) != 0)
    begins = [0, *(1 + np.flatnonzero(new)).tolist(), len(rows)]
    row_numbers, names = rows.tolist(), name.tolist()
    for begin, end in pairwise(begins):
        yield graph.text(names[begin]), row_numbers[begin:end]
