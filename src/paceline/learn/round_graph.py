"""`rounds_as_graph`: rounds of a run as a job's graph: who computes, who sends what, who waits.

Clients are carried by the ranks as a live run carries them: client n by rank n modulo the ranks,
the server by rank 0. A round is a step of the graph. Messages of one rank's clients to another rank
travel together, as they do in a live run. A mean is an all-reduce, the usual way of a deployment.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paceline.graph import (
    UNPRICED,
    Basis,
    Collective,
    DepKind,
    Facts,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
    check,
)
from paceline.graph.kinds import DType
from paceline.learn.algorithm import Meeting
from paceline.learn.errors import LearnError
from paceline.learn.message import SERVER
from paceline.learn.record import LearnRun, Round, Trip, Work

LEAST_ROUNDS = 3
"""A round is the time between two merges, of which the last has nothing behind it."""

_SIZES = ("sizes", Collective.ALL_GATHER)
_MEAN = ("mean", Collective.ALL_REDUCE)
_PACES = 40
"""Samples of an op's duration that are kept."""


def rounds_as_graph(run: LearnRun, ranks: int, rounds: Sequence[Round] | None = None) -> Graph:
    """These rounds (all of the run where none are given), one behind the other."""
    chosen = tuple(run.rounds if rounds is None else rounds)
    if len(chosen) < LEAST_ROUNDS:
        raise LearnError(
            f"{len(chosen)} rounds are too few to time one; run {LEAST_ROUNDS} or more"
        )
    if ranks < 1:
        raise LearnError(f"{ranks} ranks cannot carry clients; give a cluster with 1 or more")
    drawing = _Drawing(run, ranks)
    for step, each in enumerate(chosen):
        drawing.round(step, each)
    return check(drawing.b.build())


@dataclass(eq=False)
class _Drawing:
    """The graph under construction."""

    run: LearnRun
    ranks: int
    b: GraphBuilder = field(init=False)
    met: dict[int, int] = field(default_factory=dict)  # by rank: what its next work waits for
    links: dict[tuple[int, int, LaneKind], int] = field(default_factory=dict)
    groups: dict[tuple[int, ...], int] = field(default_factory=dict)
    under_way: list[dict[int, list[int]]] = field(default_factory=list)
    timed: set[int] = field(default_factory=set)  # steps whose update on rank 0 is drawn

    def __post_init__(self) -> None:
        self.paces = _paces(self.run)
        facts = Facts(world_size=self.ranks, steps_overlap=True)
        self.b = GraphBuilder({"source": f"rounds of {self.run.algorithm}"}, facts)
        everyone = range(self.ranks)
        self.lanes = {r: self.b.lane(r, "clients") for r in everyone}
        self.calls = {r: self.b.lane(r, "sums", kind=LaneKind.COMM_THREAD) for r in everyone}

    def round(self, step: int, each: Round) -> None:
        downs = [t for t in each.trips if t.source == SERVER]
        ups = [t for t in each.trips if t.source != SERVER and not t.after]
        began = self._messages(step, downs, dict(self.met), "hand out") if downs else {}
        done = self._work(step, each.works, began)
        if self.run.meeting is Meeting.MEAN:
            came = self._summed(step, ups, done)
        else:
            came = self._messages(step, ups, done, "send")
        self.under_way.append(came)
        arrived = self.under_way.pop(0) if len(self.under_way) > self.run.lag else {}
        self._merge(step, arrived, done, each.merge_cpu_s)
        after = [t for t in each.trips if t.after]
        if after:
            sums = [t for t in after if t.summed]
            travel = [t for t in after if not t.summed]
            self._merge(step, self._messages(step, travel, dict(self.met), "travel"), {}, 0.0)
            self._merge(step, self._summed(step, sums, dict(self.met)), {}, 0.0)

    def _work(
        self, step: int, works: Sequence[Work], began: Mapping[int, list[int]]
    ) -> dict[int, int]:
        """What each rank's clients compute, one behind the other; by rank the last of it."""
        last = dict(self.met)
        for work in works:
            rank = work.client % self.ranks
            last[rank] = self.b.op(
                f"client {work.client}",
                self.lanes[rank],
                round(1e9 * work.cpu_s),
                after=began.get(rank, ()),
                phase=Phase.BACKWARD,
                step=step,
                basis=Basis.RECORDED,
            )
            self._samples(last[rank], work)
        return last

    def _samples(self, op: int, work: Work) -> None:
        """As long as its samples would have taken at every pace that the run's clients showed."""
        self.b.samples(op, [round(1e9 * work.whole_samples * pace) for pace in self.paces])

    def _messages(
        self, step: int, trips: Sequence[Trip], done: Mapping[int, int], name: str
    ) -> dict[int, list[int]]:
        """One message for each pair of ranks, all receives posted first; by rank, what it waits
        for: what comes to it, and that what it sends has gone."""
        sizes: dict[tuple[int, int], int] = defaultdict(int)
        for trip in trips:
            source = self._rank(trip.source)
            for target in dict.fromkeys(map(self._rank, trip.targets)):
                if target != source:
                    sizes[source, target] += trip.size_bytes
        if not sizes:
            return {}
        done = self._told_sizes(step, done)
        instances = {ends: self.b.instance() for ends in sorted(sizes)}
        awaited: dict[int, list[int]] = defaultdict(list)
        for kind in (OpKind.RECV, OpKind.SEND):
            for ends, instance in instances.items():
                rank = ends[kind is OpKind.RECV]
                op = self._end(step, kind, ends, (instance, sizes[ends], name))
                awaited[rank].append(op)
                if kind is OpKind.SEND and rank in done:
                    self.b.link(done[rank], op)
        return awaited

    def _told_sizes(self, step: int, done: Mapping[int, int]) -> dict[int, int]:
        """Ranks first tell each other how large their messages are."""
        return {r: ops[0] for r, ops in self._called(step, 8 * self.ranks, done, _SIZES).items()}

    def _end(
        self, step: int, kind: OpKind, ends: tuple[int, int], told: tuple[int, int, str]
    ) -> int:
        """One end of a message."""
        (source, target), (instance, size, name) = ends, told
        sends = kind is OpKind.SEND
        lane = (
            self._link(source, target, LaneKind.LINK_OUT)
            if sends
            else self._link(target, source, LaneKind.LINK_IN)
        )
        return self.b.op(
            name,
            lane,
            UNPRICED,
            kind=kind,
            phase=Phase.COMMUNICATION,
            collective=Collective.POINT_TO_POINT,
            dtype=DType.UINT8,
            size_bytes=size,
            group=self._group(ends),  # a message goes from the first to the second
            instance=instance,
            step=step,
        )

    def _summed(
        self, step: int, trips: Sequence[Trip], done: Mapping[int, int]
    ) -> dict[int, list[int]]:
        """An all-reduce over all ranks, as long as one client's message."""
        size = max((trip.size_bytes for trip in trips), default=0)
        if self.ranks == 1 or not size:
            return {}
        return self._called(step, size, done, _MEAN)

    def _called(
        self, step: int, size: int, done: Mapping[int, int], call: tuple[str, Collective]
    ) -> dict[int, list[int]]:
        """A collective of all ranks; by rank its part."""
        instance, group = self.b.instance(), self._group(tuple(range(self.ranks)))
        name, collective = call
        return {
            rank: [
                self.b.op(
                    name,
                    self.calls[rank],
                    UNPRICED,
                    after=[done[rank]] if rank in done else (),
                    kind=OpKind.COLLECTIVE,
                    phase=Phase.COMMUNICATION,
                    collective=collective,
                    dtype=DType.FLOAT32,
                    size_bytes=size,
                    group=group,
                    instance=instance,
                    step=step,
                )
            ]
            for rank in range(self.ranks)
        }

    def _merge(
        self, step: int, came: Mapping[int, list[int]], done: Mapping[int, int], cpu_s: float
    ) -> None:
        """Where a rank has what it waits for. A step has one update on rank 0, by which it is
        timed."""
        for rank in range(self.ranks):
            waits = [*came.get(rank, ()), *([done[rank]] if rank in done else ())]
            first = rank == 0 and step not in self.timed
            self.met[rank] = self.b.op(
                "merge",
                self.lanes[rank],
                round(1e9 * cpu_s * self._share(rank)),
                after=waits,
                dep=DepKind.WAIT,
                kind=OpKind.COMPUTE,
                phase=Phase.UPDATE if first else Phase.NONE,
                step=step,
            )
        self.timed.add(step)

    def _share(self, rank: int) -> float:
        """Of the merging: the server does it all, else each rank for its clients."""
        if self.run.meeting is Meeting.SERVER:
            return float(rank == 0)
        return len(range(rank, self.run.clients, self.ranks)) / self.run.clients

    def _rank(self, number: int) -> int:
        return 0 if number == SERVER else number % self.ranks

    def _link(self, rank: int, other: int, way: LaneKind) -> int:
        key = (rank, other, way)
        if key not in self.links:
            name = f"to rank {other}" if way is LaneKind.LINK_OUT else f"from rank {other}"
            self.links[key] = self.b.lane(rank, name, kind=way)
        return self.links[key]

    def _group(self, ranks: tuple[int, ...]) -> int:
        if ranks not in self.groups:
            self.groups[ranks] = self.b.group(f"ranks {ranks}", ranks)
        return self.groups[ranks]


def _paces(run: LearnRun) -> list[float]:
    """Seconds of a sample, as they were; at most so many, evenly spread over the run."""
    found = [w.cpu_s / w.whole_samples for r in run.rounds for w in r.works if w.samples]
    return found[:: max(1, len(found) // _PACES)]
