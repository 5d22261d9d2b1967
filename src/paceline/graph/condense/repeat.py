"""A step several times in a row on the same lanes, and one of several alone."""

from dataclasses import replace

import numpy as np

from paceline.graph.condense.waits import Step
from paceline.graph.copying import copied
from paceline.graph.graph import Graph, Int64
from paceline.graph.kinds import NONE
from paceline.graph.links import Links
from paceline.graph.splice import Added, spliced


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


def repeated_alone(graph: Graph, times: int) -> Graph:
    """A graph of one step several times, which needs nothing of the step before but its lanes."""
    none = np.zeros(0, np.int64)
    links = Links(none, none, none, np.zeros(0, np.bool_))
    return repeated(Step(graph, links), times)


def alike_steps(graph: Graph) -> bool:
    """Whether no op waits for one of another step."""
    links, step = Links.of(graph), graph.ops.step
    return bool((step[links.op] == step[links.src]).all())


def first_step(graph: Graph) -> Graph:
    """The first of the graph's steps alone; links to others go."""
    steps, none = np.unique(graph.ops.step), np.zeros(0, np.int64)
    if len(steps) < 2:
        return graph
    return spliced(graph, graph.ops.step != steps[0], Added(none, none, {}), Links.of(graph))


def _apart(instance: np.ndarray, copy: Int64) -> np.ndarray:
    """Instances of different copies are different."""
    members = instance != NONE
    found = np.full(len(instance), NONE, np.int32)
    width = int(instance.max(initial=NONE)) + 1
    numbers = copy[members] * width + instance[members]
    found[members] = np.unique(numbers, return_inverse=True)[1]
    return found
