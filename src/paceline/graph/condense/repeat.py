"""A step several times in a row on the same lanes, and one of several alone."""

from dataclasses import replace

import numpy as np

from paceline.graph.condense.waits import LinkedStep
from paceline.graph.copying import tiled
from paceline.graph.graph import Graph, Int32
from paceline.graph.kinds import NONE
from paceline.graph.links import Links
from paceline.graph.rank_steps import numbered
from paceline.graph.splice import Added, spliced


def repeated(step: LinkedStep, times: int) -> Graph:
    """The step `times` times; each waits for the one before as the recorded one did."""
    graph, count = step.graph, len(step.graph)
    made = tiled(graph, times)
    ops = replace(
        made.ops,
        step=np.repeat(np.arange(times, dtype=np.int32), count),
        instance=_apart(graph.ops.instance, times),
    )
    deps = made.deps
    if len(step.before.op) and times > 1:
        later = count * np.repeat(np.arange(1, times), len(step.before.op))
        op, src = np.tile(step.before.op, times - 1), np.tile(step.before.src, times - 1)
        kind = np.tile(step.before.kind, times - 1)
        inferred = np.tile(step.before.inferred, times - 1)
        across = Links(op + later, src + later - count, kind, inferred)
        deps = Links.of(made).joined(across).columns(len(made))
    return replace(made, ops=ops, deps=deps)


def repeated_alone(graph: Graph, times: int) -> Graph:
    """A graph of one step several times, which needs nothing of the step before but its lanes."""
    none = np.zeros(0, np.int64)
    links = Links(none, none, none, np.zeros(0, np.bool_))
    return repeated(LinkedStep(graph, links), times)


def alike_steps(graph: Graph) -> bool:
    """Whether no op waits for one of another step."""
    links, step = Links.of(graph), graph.ops.step
    return bool((step[links.op] == step[links.src]).all())


def first_step(graph: Graph) -> Graph:
    """The first of the graph's steps alone; links to others go."""
    steps, none = numbered(graph.ops.step)[0], np.zeros(0, np.int64)
    if len(steps) < 2:
        return graph
    return spliced(graph, graph.ops.step != steps[0], Added(none, none, {}), Links.of(graph))


def _apart(instance: Int32, times: int) -> Int32:
    """Instances of different copies are different."""
    members = instance != NONE
    each, number = numbered(instance[members])
    found = np.full((times, len(instance)), NONE, np.int32)
    found[:, members] = number + np.arange(times)[:, None] * len(each)
    return found.reshape(-1)
