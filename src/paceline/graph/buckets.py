"""`Bucket`: gradients that are reduced together, as a live job and a graph both see them."""

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from math import prod

import numpy as np

from paceline.errors import GraphError
from paceline.graph.facts import Parameter
from paceline.graph.gradients import parameters_in
from paceline.graph.graph import Graph, Int64
from paceline.graph.links import Links

Shape = tuple[int, ...]


class Needs(IntEnum):
    """What a change must know of a bucket; each says more than the one before."""

    COUNT = 0  # how many gradients
    PARTS = 1  # how many of each parameter
    SHAPES = 2  # the shape of each parameter


@dataclass(frozen=True)
class Bucket:
    """The shapes of its parameters; where they are not asked for, one vector of all."""

    shapes: tuple[Shape, ...]
    index: int = 0  # in the order in which a rank hands a step's buckets over

    @cached_property
    def counts(self) -> tuple[int, ...]:
        return tuple(prod(shape) for shape in self.shapes)

    @property
    def count(self) -> int:
        return sum(self.counts)


def buckets_of(graph: Graph, links: Links, calls: Int64, needs: Needs) -> list[Bucket]:
    """What each of these calls reduces."""
    counts = (graph.ops.size_bytes[calls] // 4).tolist()
    places = _places(graph, calls)
    if needs is Needs.COUNT:
        return [Bucket(((count,),), place) for count, place in zip(counts, places)]
    held = parameters_in(graph, links)
    return [
        Bucket(_shapes(_whole(graph, held.get(call, []), place, count), needs), place)
        for call, count, place in zip(calls.tolist(), counts, places)
    ]


def _places(graph: Graph, calls: Int64) -> list[int]:
    """The place of each among the calls of its rank, step and group."""
    ops, seen, found = graph.ops, Counter[tuple[int, ...]](), []
    keys = np.stack([ops.rank[calls], ops.step[calls], ops.group[calls]], axis=1).tolist()
    for key in map(tuple, keys):
        found.append(seen[key])
        seen[key] += 1
    return found


def _whole(graph: Graph, held: list[int], place: int, count: int) -> list[Parameter]:
    """The parameters of a bucket of so many gradients: as links say, or as was recorded of DDP."""
    parameters, named = graph.facts.parameters, graph.facts.buckets
    recorded = named[place] if place < len(named) else ()
    for found in ([parameters[index] for index in held],
                  [p for p in parameters if p.name in recorded]):  # fmt: skip
        if sum(parameter.size_bytes for parameter in found) == 4 * count:
            return found
    raise GraphError(
        f"the recording does not say which parameters make up a bucket of {4 * count} bytes, "
        "and this codec treats each by itself. Record a job under DDP with `paceline record`."
    )


def _shapes(parameters: list[Parameter], needs: Needs) -> tuple[Shape, ...]:
    if needs is Needs.PARTS:
        return tuple((parameter.size_bytes // 4,) for parameter in parameters)
    if any(prod(p.shape) * 4 != p.size_bytes for p in parameters):
        raise GraphError(
            "the recording does not say the shapes of its parameters, which this codec's bytes "
            "depend on; it was made by an older version. Record the job again."
        )
    return tuple(parameter.shape for parameter in parameters)
