"""`rows_of`: how many rows a worker's batch has in each layer, as its products tell."""

from dataclasses import dataclass
from math import prod

from paceline.graph.graph import Graph
from paceline.graph.weight_products import WeightGradients
from paceline.graph.work import Matrix, element_bytes


@dataclass(frozen=True)
class FactorRows:
    """How many rows a layer's input, and the gradient of its result, have."""

    count: int
    element_bytes: int


def rows_of(graph: Graph, made: WeightGradients) -> dict[int, FactorRows]:
    """By weight: the most that any product which makes its gradient has; those that tell none are
    left out. Rows grow with the samples of a step."""
    found: dict[int, FactorRows] = {}
    for weight, op in zip(made.parameter.tolist(), made.first.tolist()):
        told = _rows(graph, graph.facts.parameters[weight].shape, op)
        if told is not None and (weight not in found or told.count > found[weight].count):
            found[weight] = told
    return found


def _rows(graph: Graph, shape: tuple[int, ...], op: int) -> FactorRows | None:
    told = graph[op].work
    dims = None if told is None else told.work.dims
    if told is None or not isinstance(dims, Matrix) or dims.m * dims.n != prod(shape):
        return None
    return FactorRows(round(dims.k * graph.facts.samples), int(element_bytes(told.work.dtype)))
