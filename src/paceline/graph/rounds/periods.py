"""`in_periods`: the typical step once for every step of a few periods."""

from dataclasses import replace

import numpy as np

from paceline.errors import GraphError
from paceline.graph.condense import STEPS, condense
from paceline.graph.condense.grain import Grain
from paceline.graph.condense.repeat import repeated
from paceline.graph.condense.waits import LinkedStep
from paceline.graph.copying import copied
from paceline.graph.graph import Graph
from paceline.graph.kinds import NONE
from paceline.graph.links import Links

PERIODS = STEPS
"""The first begins on all ranks at once; the others run as periods do."""


def typical_step(graph: Graph) -> LinkedStep:
    """The step that a graph repeats, and what it needs of the step before. Recorded steps that
    differ are condensed first."""
    if graph.facts.period > 1:
        raise GraphError(
            f"this job already repeats itself every {graph.facts.period} steps; give one change of "
            "how often ranks exchange weights"
        )
    if not _repeats(graph):
        graph = condense(graph, Grain.OP)
    numbers, links = np.unique(graph.ops.step), Links.of(graph)
    rows = [np.flatnonzero(graph.ops.step == number) for number in numbers[:2]]
    place = np.full(len(graph), NONE, np.int64)
    for mine in rows:
        place[mine] = np.arange(len(mine))
    step = graph.ops.step
    across = (step[links.src] == numbers[0]) & (step[links.op] != numbers[0])
    across &= np.isin(step[links.op], numbers[1:2])
    return LinkedStep(copied(graph, rows[:1]).graph, links.where(across).moved(place))


def in_periods(step: LinkedStep, period: int) -> Graph:
    """So many steps a period, `PERIODS` times."""
    made = repeated(step, PERIODS * period)
    return replace(made, facts=replace(made.facts, period=period))


def _repeats(graph: Graph) -> bool:
    """Whether all steps are one step again and again."""
    step = graph.ops.step
    numbers, count = np.unique(step, return_counts=True)
    if len(numbers) < 2:
        return True
    if numbers[0] == NONE or len(np.unique(count)) > 1:
        return False
    rows = np.argsort(step, kind="stable").reshape(len(numbers), -1)
    columns = (graph.ops.lane, graph.ops.kind, graph.ops.dur_ns, graph.ops.size_bytes)
    return all(bool((column[rows] == column[rows[0]]).all()) for column in columns)
