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


class WorkClass(Enum):
    """What the time goes to."""

    COMPUTE = "compute"
    HOST = "host"
    INPUT = "input"
    TRANSFER = "communication"
    COPY = "copies"
    CORE = "waiting for a core"
    WAIT = "waiting"


_WORK = {
    OpKind.COMPUTE: WorkClass.COMPUTE,
    OpKind.HOST: WorkClass.HOST,
    OpKind.COLLECTIVE: WorkClass.TRANSFER,
    OpKind.SEND: WorkClass.TRANSFER,
    OpKind.RECV: WorkClass.TRANSFER,
    OpKind.TRANSFER: WorkClass.TRANSFER,
    OpKind.COPY: WorkClass.COPY,
    OpKind.WAIT: WorkClass.WAIT,
    OpKind.DATA: WorkClass.INPUT,
    OpKind.MARKER: WorkClass.WAIT,
    OpKind.CORE_WAIT: WorkClass.CORE,
}


@dataclass(frozen=True)
class WorkPlace:
    """One kind of work of one phase, layer and operator. Of communication the layer is empty."""

    work: WorkClass
    phase: Phase
    layer: str
    operator: str
    communicates: bool = False  # on a thread of a communication library


@dataclass(frozen=True, eq=False)
class Spent:
    """Time by place and step: on the path that the step hangs on, and on each rank."""

    places: tuple[WorkPlace, ...]
    path_ns: Float64  # places x steps; a column sums to the step
    rank_ns: Float64  # ranks x places, the mean over the steps, overlapped or not
    ranks: tuple[int, ...]

    @cached_property
    def row(self) -> dict[WorkPlace, int]:
        return {place: row for row, place in enumerate(self.places)}

    def path(self, place: WorkPlace) -> Float64:
        """By step; zeros where the run does not have the place."""
        row = self.row.get(place)
        return np.zeros(self.path_ns.shape[1]) if row is None else self.path_ns[row]

    def by_rank(self, place: WorkPlace) -> Float64:
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


def places_of(graph: Graph) -> tuple[tuple[WorkPlace, ...], Int64]:
    """The graph's places, and which one each op is at."""
    ops = graph.ops
    operator = operators_of(graph)
    apart = graph.lanes.kind[ops.lane] == LaneKind.COMM_THREAD
    columns = np.stack([ops.kind, ops.phase, ops.layer, operator, apart], axis=1)
    rows, inverse = np.unique(columns, axis=0, return_inverse=True)
    found: dict[WorkPlace, int] = {}
    of_row = np.array([found.setdefault(_place(graph, row), len(found)) for row in rows.tolist()])
    return tuple(found), of_row[inverse.reshape(-1)] if len(rows) else inverse.reshape(-1)


def _place(graph: Graph, row: list[int]) -> WorkPlace:
    kind, phase, layer, operator, apart = row
    work = _WORK[OpKind(kind)]
    talks = bool(apart) or work is WorkClass.TRANSFER
    name = "" if work in (WorkClass.CORE, WorkClass.WAIT) else graph.text(operator)
    return WorkPlace(work, Phase(phase), "" if talks else graph.text(layer), name, talks)
