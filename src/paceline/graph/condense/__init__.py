"""`condense`: the recorded steps of a job as one typical step, again a graph, at a chosen grain.

    step = condense(graph)                    # events and the stretches of work between them
    step = condense(graph, Grain.OP)          # every op of the typical step

Lengths are medians over the recorded steps that did the same; waiting for a core is left out. The
step stands several times in a row, for the first begins on all ranks at once and later ones run as
steps do; `replay/steps` reads one step's length from the others.
"""

from weakref import WeakKeyDictionary

import numpy as np

from paceline.graph.condense.cuts import cuts_of
from paceline.graph.condense.grain import Grain, coarser
from paceline.graph.condense.medians import with_medians
from paceline.graph.condense.repeat import alike_steps, first_step, repeated, repeated_alone
from paceline.graph.condense.shapes import common_shapes
from paceline.graph.condense.waits import LinkedStep, with_waits
from paceline.graph.core_waits import without_core_waits
from paceline.graph.graph import Graph
from paceline.graph.kinds import NONE, OpKind

STEPS = 3
_steps: WeakKeyDictionary[Graph, LinkedStep] = WeakKeyDictionary()
"""Remembered as long as the graph: most that ask for one grain ask for another too."""

__all__ = [
    "STEPS",
    "Grain",
    "alike_steps",
    "coarser",
    "condense",
    "condensed_ops",
    "first_step",
    "repeated_alone",
    "step_ops",
]


def condense(graph: Graph, grain: Grain = Grain.EVENT, steps: int = STEPS) -> Graph:
    """The typical step, `steps` times. A graph of a single step stands for itself."""
    if graph not in _steps:
        _steps[graph] = _typical(graph)
    return repeated(_steps[graph].merged(grain), steps)


def condensed_ops(graph: Graph, steps: int = STEPS) -> int:
    """How many ops `condense` makes of the recorded steps op by op, without making them."""
    graph = without_core_waits(graph)
    reference = common_shapes(graph, cuts_of(graph)).reference
    return steps * int((graph.ops.step == reference).sum())


def step_ops(graph: Graph) -> tuple[int, int]:
    """How many ops the shortest and the longest recorded step have, but for waits for cores."""
    ops = graph.ops
    counts = np.bincount(ops.step[(ops.step != NONE) & (ops.kind != OpKind.CORE_WAIT)])
    counts = counts[counts > 0]
    return int(counts.min(initial=len(ops))), int(counts.max(initial=0))


def _typical(graph: Graph) -> LinkedStep:
    """In all detail."""
    graph = without_core_waits(graph)
    cuts = cuts_of(graph)
    shapes = common_shapes(graph, cuts)
    return with_waits(with_medians(graph, cuts, shapes), graph, cuts, shapes)
