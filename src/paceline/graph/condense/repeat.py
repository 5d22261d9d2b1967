"""A step several times in a row, on the same lanes."""

from dataclasses import replace

import numpy as np

from paceline.graph.condense.waits import Step
from paceline.graph.copying import copied
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE
from paceline.graph.links import Links


def repeated(step: Step, times: int) -> Graph:
    """The step `times` times; each waits for the one before as the recorded one did."""
    graph = step.graph
    made = copied(graph, [np.arange(len(graph))] * times)
    ops = replace(
        made.graph.ops,
        step=made.copy.astype(np.int32),
        instance=_apart(graph.ops.instance[made.source], made.copy),
    )
    deps = made.graph.deps
    if len(step.before.op) and times > 1:
        later = np.repeat(np.arange(1, times), len(step.before.op))
        op, src = np.tile(step.before.op, times - 1), np.tile(step.before.src, times - 1)
        kind = np.tile(step.before.kind, times - 1)
        inferred = np.tile(step.before.inferred, times - 1)
        across = Links(made.of(op, later), made.of(src, later - 1), kind, inferred)
        deps = Links.of(made.graph).joined(across).columns(len(made.graph))
    return replace(made.graph, ops=ops, deps=deps)


def _apart(instance: np.ndarray, copy: Int64) -> np.ndarray:
    """Instances of different copies are different."""
    members = instance != NONE
    found = np.full(len(instance), NONE, np.int32)
    width = int(instance.max(initial=NONE)) + 1
    numbers = copy[members] * width + instance[members]
    found[members] = np.unique(numbers, return_inverse=True)[1]
    return found
