"""`held_longer`: what a weight's gradient is made of stays until it is made.

A layer's input, and the gradient of its result, go where the last who needs them has read them:
with the weight's gradient, and then the event moves with its ops; or later, as a ReLU's result goes
with the ReLU's own backward pass. Such an event moves behind the weight's gradient here. It is
known by its bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from paceline.graph.facts import Parameter
from paceline.graph.graph import Graph, Int32, Int64, MemoryEvents
from paceline.graph.kinds import NONE, MemoryCategory
from paceline.graph.weight_products import WeightGradients
from paceline.graph.work import Matrix


def held_longer(graph: Graph, made: WeightGradients, behind: Int64) -> MemoryEvents:
    """The graph's memory events where these gradients are made behind other ops. `behind`: of each
    stretch, the op behind which it comes to stand."""
    memory = graph.memory
    op, at_end = memory.op.copy(), memory.at_end.copy()
    for need in _needs(graph, made, behind):
        event = need.event(graph, op)
        if event != NONE:
            op[event], at_end[event] = need.last, True
    order = np.argsort(op, kind="stable")
    columns = {**vars(memory), "op": op, "at_end": at_end}
    return MemoryEvents(**{name: column[order] for name, column in columns.items()})


@dataclass(frozen=True)
class _Need:
    """So many bytes that a stretch reads."""

    first: int
    last: int
    behind: int
    size_bytes: int
    category: MemoryCategory

    def event(self, graph: Graph, op: Int32) -> int:
        """Where they are given back, if that is behind the stretch and before it comes to stand
        elsewhere; else NONE. `op` is that of each event by now."""
        memory, ranks = graph.memory, graph.ops.rank
        found = (op >= self.first) & (op <= self.behind) & (ranks[op] == ranks[self.first])
        found &= (memory.delta_bytes == -self.size_bytes) & (memory.category == self.category)
        events = np.flatnonzero(found)
        inside = len(events) and op[events[0]] <= self.last
        return NONE if inside or not len(events) else int(events[0])


def _needs(graph: Graph, made: WeightGradients, behind: Int64) -> Iterator[_Need]:
    rows = zip(made.parameter.tolist(), made.first.tolist(), made.last.tolist(), behind.tolist())
    for weight, first, last, end in rows:
        parameter = graph.facts.parameters[weight]
        for size_bytes, category in _reads(graph, parameter, first):
            yield _Need(first, last, end, size_bytes, category)


def _reads(graph: Graph, weight: Parameter, op: int) -> Iterator[tuple[int, MemoryCategory]]:
    """The input and the gradient of the result, where the op is the weight's product."""
    told = graph[op].work
    dims = None if told is None else told.work.dims
    if isinstance(dims, Matrix) and len(weight.shape) == 2:
        outputs, inputs = weight.shape
        each = dims.k * weight.size_bytes // (outputs * inputs)
        yield each * inputs, MemoryCategory.ACTIVATIONS
        yield each * outputs, MemoryCategory.TEMPORARY
