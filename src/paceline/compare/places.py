"""Where a step's time is spent, by places that two runs share: work, phase, layer and operator.

A place has no kernel's name, lane or rank in it, so steps of other vendors' devices, of other
versions and of other worker counts can be laid side by side.
"""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paceline.analyse.operators import operators_of
from paceline.graph import NONE, LaneKind, OpKind, Phase
from paceline.graph.graph import Graph, Int64
from paceline.replay import Timeline

Float64 = NDArray[np.float64]


class Work(Enum):
    """What the time goes to."""

    COMPUTE = "compute"
    HOST = "host"
    INPUT = "input"
    TRANSFER = "communication"
    COPY = "copies"
    CORE = "waiting for a core"
    WAIT = "waiting"


_WORK = {
    OpKind.COMPUTE: Work.COMPUTE,
    OpKind.HOST: Work.HOST,
    OpKind.COLLECTIVE: Work.TRANSFER,
    OpKind.SEND: Work.TRANSFER,
    OpKind.RECV: Work.TRANSFER,
    OpKind.TRANSFER: Work.TRANSFER,
    OpKind.COPY: Work.COPY,
    OpKind.WAIT: Work.WAIT,
    OpKind.DATA: Work.INPUT,
    OpKind.MARKER: Work.WAIT,
    OpKind.CORE_WAIT: Work.CORE,
}


@dataclass(frozen=True)
class Place:
    """One kind of work of one phase, layer and operator. Of communication the layer is empty."""

    work: Work
    phase: Phase
    layer: str
    operator: str
    communicates: bool = False  # on a thread of a communication library


@dataclass(frozen=True, eq=False)
class Spent:
    """Time by place and step: on the path that the step hangs on, and on each rank."""

    places: tuple[Place, ...]
    path_ns: Float64  # places x steps; a column sums to the step
    rank_ns: Float64  # ranks x places, the mean over the steps, overlapped or not
    ranks: tuple[int, ...]

    @cached_property
    def row(self) -> dict[Place, int]:
        return {place: row for row, place in enumerate(self.places)}

    def path(self, place: Place) -> Float64:
        """By step; zeros where the run does not have the place."""
        row = self.row.get(place)
        return np.zeros(self.path_ns.shape[1]) if row is None else self.path_ns[row]

    def by_rank(self, place: Place) -> Float64:
        row = self.row.get(place)
        return np.zeros(len(self.ranks)) if row is None else self.rank_ns[:, row]


def spent_of(timeline: Timeline) -> Spent:
    """All places of the recorded steps. What belongs to no step counts for the first."""
    graph = timeline.graph
    numbers = np.unique(graph.ops.step[graph.ops.step != NONE])
    step = np.maximum(np.searchsorted(numbers, graph.ops.step), 0)
    steps = max(1, len(numbers))
    places, place = places_of(graph)
    path = timeline.critical_path
    shares = np.zeros((len(places), steps))
    np.add.at(shares, (place[path.ops], np.minimum(step[path.ops], steps - 1)), path.share_ns)
    rank = np.searchsorted(np.array(graph.ranks), graph.ops.rank)
    lasted = (timeline.end_ns - timeline.start_ns).astype(np.float64)
    by_rank = np.zeros((len(graph.ranks), len(places)))
    np.add.at(by_rank, (rank, place), lasted / steps)
    return Spent(places, shares, by_rank, graph.ranks)


def places_of(graph: Graph) -> tuple[tuple[Place, ...], Int64]:
    """The graph's places, and which one each op is at."""
    ops = graph.ops
    operator = operators_of(graph)
    apart = graph.lanes.kind[ops.lane] == LaneKind.COMM_THREAD
    columns = np.stack([ops.kind, ops.phase, ops.layer, operator, apart], axis=1)
    rows, inverse = np.unique(columns, axis=0, return_inverse=True)
    found: dict[Place, int] = {}
    of_row = np.array([found.setdefault(_place(graph, row), len(found)) for row in rows.tolist()])
    return tuple(found), of_row[inverse.reshape(-1)] if len(rows) else inverse.reshape(-1)


def _place(graph: Graph, row: list[int]) -> Place:
    kind, phase, layer, operator, apart = row
    work = _WORK[OpKind(kind)]
    talks = bool(apart) or work is Work.TRANSFER
    name = "" if work in (Work.CORE, Work.WAIT) else graph.text(operator)
    return Place(work, Phase(phase), "" if talks else graph.text(layer), name, talks)
