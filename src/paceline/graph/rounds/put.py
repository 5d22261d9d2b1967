"""`with_rounds`: a job whose ranks train alone and exchange weights in rounds.

A round is packed where the rank does its update, behind it; handed over; and taken in behind the
update of the same or a later step. Packing and taking in are priced by the bytes that they pass
over.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from paceline.errors import GraphError
from paceline.graph.border import UNSCALED
from paceline.graph.graph import Graph
from paceline.graph.kinds import (
    NONE,
    UNPRICED,
    WORK,
    Collective,
    DepKind,
    LaneKind,
    OpKind,
    Phase,
)
from paceline.graph.links import Links
from paceline.graph.rounds.periods import PERIODS, in_periods, typical_step
from paceline.graph.rounds.round import Round, Rounds
from paceline.graph.rounds.seats import Seat, apart, renamed
from paceline.graph.splice import Added, spliced


def with_rounds(graph: Graph, asked: Rounds) -> Graph:
    """`PERIODS` periods of the job's typical step, with these rounds in each and no exchange of
    gradients."""
    alone, seats = apart(typical_step(graph), asked.fragments)
    texts = dict.fromkeys(f"{verb} {r.name}" for r in asked.rounds for verb in _VERBS)
    made, names = renamed(in_periods(alone, asked.period), tuple(texts))
    work = _Work(made, names, _places(made))
    for seat in seats:
        work.put(seat, asked)
    return work.graph()


_VERBS = ("pack", "exchange", "take")
"""What the ops of a round are called, before its name."""


@dataclass(frozen=True)
class _Place:
    """Where a rank's update ends in a step."""

    op: int
    launch: int  # what hands it to its stream, or NONE


def _places(graph: Graph) -> dict[tuple[int, int], _Place]:
    """By rank and step: the last op of the update, on a device where the job has any."""
    ops, kinds = graph.ops, graph.lanes.kind[graph.ops.lane]
    streams = bool((graph.lanes.kind == LaneKind.STREAM).any())
    works = np.isin(ops.kind, WORK) & (kinds == (LaneKind.STREAM if streams else LaneKind.THREAD))
    rows = np.flatnonzero(works & (ops.phase == Phase.UPDATE))
    links, launch = Links.of(graph), np.full(len(graph), NONE, np.int64)
    launching = links.kind == DepKind.LAUNCH
    launch[links.op[launching]] = links.src[launching]
    keys = zip(ops.rank[rows].tolist(), ops.step[rows].tolist())
    return {key: _Place(row, int(launch[row])) for key, row in zip(keys, rows.tolist())}


class _Op(NamedTuple):
    """A new op."""

    behind: int
    name: int
    kind: int
    lane: int
    size_bytes: int = 0
    dur_ns: int = UNPRICED
    group: int = NONE
    instance: int = NONE
    collective: int = int(Collective.NONE)
    dtype: int = 0


@dataclass
class _Work:
    """Goes over the seats and collects what is new."""

    source: Graph
    names: dict[str, int]
    places: dict[tuple[int, int], _Place]
    new: list[_Op] = field(default_factory=list)
    rows: list[tuple[int, int, DepKind]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first_instance = int(self.source.ops.instance.max(initial=NONE)) + 1
        self.instances: dict[tuple[int, int, Round], int] = {}

    def graph(self) -> Graph:
        columns = dict(
            zip(_Op._fields, np.array(self.new, np.int64).reshape(-1, len(_Op._fields)).T)
        )
        behind, count = columns.pop("behind"), len(self.new)
        same = {"phase": Phase.COMMUNICATION, "flops": 0, "tensor": NONE, "layer": NONE}
        same |= {"work": NONE}
        columns |= {name: np.full(count, value) for name, value in same.items()}
        columns["scale_ppb"] = np.full(count, UNSCALED)
        links = Links.of(self.source)
        for kind in sorted({kind for _, _, kind in self.rows}):
            part = np.array([(op, src) for op, src, k in self.rows if k is kind], np.int64)
            links = links.joined(Links.all_of(part[:, 0], part[:, 1], kind))
        gone = np.zeros(len(self.source), np.bool_)
        return spliced(self.source, gone, Added(behind, behind, columns), links)

    def put(self, seat: Seat, asked: Rounds) -> None:
        """All rounds of one rank, in the order in which it makes them."""
        under_way: dict[tuple[int, Round], int] = {}
        for step in range(PERIODS * asked.period):
            place = self._place(seat.rank, step)
            for each in asked.rounds:
                begun = step - each.lasts
                if each.lasts and begun >= 0 and begun % asked.period == each.step:
                    self._take(seat, each, place, under_way.pop((begun, each)))
            for each in asked.rounds:
                if step % asked.period == each.step:
                    call = self._send(seat, each, place, step)
                    if each.lasts:
                        under_way[step, each] = call
                    else:
                        self._take(seat, each, place, call)

    def _place(self, rank: int, step: int) -> _Place:
        if (rank, step) not in self.places:
            raise GraphError(
                f"the recording does not show the update of rank {rank}, behind which weights "
                "would be exchanged. Record a job whose optimizer steps."
            )
        return self.places[rank, step]

    def _send(self, seat: Seat, each: Round, place: _Place, step: int) -> int:
        """Pack, hand over; returns the collective."""
        size = seat.sizes[each.fragment] * each.times
        asks = pack = self._work(seat, place, f"pack {each.name}", each.packs * size)
        name = self.names[f"exchange {each.name}"]
        if place.launch == NONE and seat.handed_over_ns:
            asks = self._add(
                _Op(place.op, name, OpKind.HOST, self._lane(place), dur_ns=seat.handed_over_ns)
            )
        call = self._add(
            _Op(
                behind=place.op,
                name=name,
                kind=OpKind.COLLECTIVE,
                lane=seat.lane,
                size_bytes=size,
                group=seat.group,
                instance=self._instance(seat.group, step, each),
                collective=Collective.ALL_REDUCE,
                dtype=seat.dtype,
            )
        )
        self.rows.append((call, pack, DepKind.DATA))
        self._launched(call, asks if place.launch == NONE else place.launch)
        return call

    def _take(self, seat: Seat, each: Round, place: _Place, call: int) -> None:
        """Wait, where a thread does, and take in what came."""
        waits = DepKind.EVENT
        name = f"take {each.name}"
        if place.launch == NONE:
            wait = _Op(place.op, self.names[name], OpKind.WAIT, self._lane(place), dur_ns=0)
            self.rows.append((self._add(wait), call, DepKind.WAIT))
            waits = DepKind.DATA
        size = seat.sizes[each.fragment] * each.times
        self.rows.append((self._work(seat, place, name, each.takes * size), call, waits))

    def _work(self, seat: Seat, place: _Place, name: str, size_bytes: int) -> int:
        """Work on the rank's own lane."""
        lane = self._lane(place)
        op = self._add(
            _Op(place.op, self.names[name], OpKind.COMPUTE, lane, size_bytes, dtype=seat.dtype)
        )
        if place.launch != NONE:
            self._launched(op, place.launch)
        return op

    def _launched(self, op: int, by: int) -> None:
        self.rows.append((op, by, DepKind.LAUNCH))

    def _lane(self, place: _Place) -> int:
        return int(self.source.ops.lane[place.op])

    def _instance(self, group: int, step: int, each: Round) -> int:
        key = (group, step, each)
        return self.instances.setdefault(key, self.first_instance + len(self.instances))

    def _add(self, op: _Op) -> int:
        self.new.append(op)
        return len(self.source) + len(self.new) - 1
