"""`rounds_as_graph`: rounds of a run as a job's graph: who computes, who sends what, who waits.

Clients are carried by the ranks as a live run carries them: client n by rank n modulo the ranks,
the server by rank 0. A round is a step of the graph. Messages of one rank's clients to another rank
travel together, as they do in a live run; half of what a call takes of a worker's processor comes
before it and half behind. A mean is an all-reduce, the usual way of a deployment. Behind all work
stands a wait for the core, empty until somebody knows of a quota.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paceline.graph import NONE, Basis, Collective, DepKind, Graph, OpKind, Phase
from paceline.learn.algorithm import Meeting
from paceline.learn.errors import LearnError
from paceline.learn.message import SERVER
from paceline.learn.record import ClientWork, LearnRun, Round, Trip
from paceline.learn.round_ops import Letter, RoundOps
from paceline.measure.handling import UNHANDLED, Handling

LEAST_ROUNDS = 3
"""A round is the time between two merges, of which the last has nothing behind it."""

_SIZES = ("sizes", Collective.ALL_GATHER)  # ranks first tell how large their messages are
_MEAN = ("mean", Collective.ALL_REDUCE)
_PACES = 40
"""Samples of an op's duration that are kept."""
_FORWARD = 1 / 3
"""Of a sample's time in training: the backward pass takes twice as long."""


@dataclass(frozen=True)
class Around:
    """What a live run does beside its rounds: what messages take of each worker's processor, and
    behind how many of the rounds rank 0 judges the model, while others go on as far as they can."""

    handling: Handling = UNHANDLED
    judged: int = NONE  # not within these rounds


NOTHING_ELSE = Around()


def rounds_as_graph(
    run: LearnRun,
    ranks: int,
    rounds: Sequence[Round] | None = None,
    around: Around = NOTHING_ELSE,
) -> Graph:
    """These rounds (all of the run where none are given), one behind the other."""
    chosen = tuple(run.rounds if rounds is None else rounds)
    if len(chosen) < LEAST_ROUNDS:
        raise LearnError(
            f"{len(chosen)} rounds are too few to time one; run {LEAST_ROUNDS} or more"
        )
    if not 1 <= ranks <= run.clients:
        raise LearnError(
            f"{ranks} workers cannot carry {run.clients} clients: each carries one at least. Give "
            f"a cluster with 1 to {run.clients} workers"
        )
    drawing = _Drawing(run, around.handling, RoundOps(f"rounds of {run.algorithm}", ranks))
    for step, each in enumerate(chosen):
        if step == around.judged:
            drawing.judging(step - 1)
        drawing.round(step, each)
    return drawing.ops.graph()


@dataclass(eq=False)
class _Drawing:
    """The graph under construction."""

    run: LearnRun
    handling: Handling
    ops: RoundOps
    met: dict[int, int] = field(default_factory=dict)  # by rank: what its next work waits for
    under_way: list[dict[int, list[int]]] = field(default_factory=list)
    timed: set[int] = field(default_factory=set)  # steps whose update on rank 0 is drawn
    taking: dict[int, float] = field(default_factory=dict)  # by awaited op: ns to take it in

    def __post_init__(self) -> None:
        self.paces, self.ranks = _paces(self.run), self.ops.ranks

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

    def judging(self, step: int) -> None:
        """Every sample of the test passes forward, on rank 0 alone; its clock stands meanwhile."""
        took_ns = 1e9 * _FORWARD * self.run.test_samples * self.run.sample_s
        self.met[0] = self.ops.stood("judge", 0, step, took_ns)

    def _work(
        self, step: int, works: Sequence[ClientWork], began: Mapping[int, list[int]]
    ) -> dict[int, int]:
        """What each rank's clients compute, one behind the other; by rank the last of it."""
        last = dict(self.met)
        for rank, came in began.items():
            last[rank] = self.ops.worked("take in", rank, step, self._taken_ns(came), after=came)
        for work in works:
            rank = work.client % self.ranks
            last[rank] = self.ops.worked(
                f"client {work.client}",
                rank,
                step,
                1e9 * work.cpu_s,
                phase=Phase.BACKWARD,
                basis=Basis.RECORDED,
            )
            self._samples(last[rank] - 1, work)
        return last

    def _taken_ns(self, came: Sequence[int]) -> float:
        """What it takes of a processor to take in what was awaited."""
        return sum(self.taking.get(op, 0.0) for op in came)

    def _handed(
        self, step: int, done: Mapping[int, int], took_ns: Mapping[int, float]
    ) -> Mapping[int, int]:
        """What it takes of a rank's processor to hand over what it sends."""
        handed = {
            rank: self.ops.worked("hand over", rank, step, ns) for rank, ns in took_ns.items() if ns
        }
        return {**done, **handed}

    def _samples(self, op: int, work: ClientWork) -> None:
        """As long as its samples would have taken at every pace that the run's clients showed."""
        self.ops.b.samples(op, [round(1e9 * work.whole_samples * pace) for pace in self.paces])

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
        call_ns = self.handling.told_ns(self.ranks) / 2
        out_ns = dict.fromkeys(range(self.ranks), call_ns)
        for (source, _), size in sizes.items():
            out_ns[source] += self.handling.carried_ns(size)
        done = self.ops.called(step, 8 * self.ranks, self._handed(step, done, out_ns), _SIZES)
        instances = {ends: self.ops.b.instance() for ends in sorted(sizes)}
        awaited: dict[int, list[int]] = defaultdict(list)
        for kind in (OpKind.RECV, OpKind.SEND):
            for ends, instance in instances.items():
                rank = ends[kind is OpKind.RECV]
                op = self.ops.end(kind, Letter(name, step, ends, instance, sizes[ends]))
                awaited[rank].append(op)
                if kind is OpKind.RECV:
                    self.taking[op] = self.handling.carried_ns(sizes[ends])
                if kind is OpKind.SEND and rank in done:
                    self.ops.b.link(done[rank], op)
        for ops in awaited.values():
            self.taking[ops[0]] = self.taking.get(ops[0], 0.0) + call_ns
        return awaited

    def _summed(
        self, step: int, trips: Sequence[Trip], done: Mapping[int, int]
    ) -> dict[int, list[int]]:
        """An all-reduce over all ranks, as long as one client's message."""
        size = max((trip.size_bytes for trip in trips), default=0)
        if self.ranks == 1 or not size:
            return {}
        half_ns = self.handling.summed_ns(self.ranks, size) / 2
        done = self._handed(step, done, dict.fromkeys(range(self.ranks), half_ns))
        called = self.ops.called(step, size, done, _MEAN)
        self.taking |= dict.fromkeys(called.values(), half_ns)
        return {rank: [op] for rank, op in called.items()}

    def _merge(
        self, step: int, came: Mapping[int, list[int]], done: Mapping[int, int], cpu_s: float
    ) -> None:
        """Where a rank has what it waits for. A step has one update on rank 0, by which it is
        timed."""
        for rank in range(self.ranks):
            waits = [*came.get(rank, ()), *([done[rank]] if rank in done else ())]
            first = rank == 0 and step not in self.timed
            self.met[rank] = self.ops.worked(
                "merge",
                rank,
                step,
                1e9 * cpu_s * self._share(rank) + self._taken_ns(came.get(rank, ())),
                after=waits,
                dep=DepKind.WAIT,
                phase=Phase.UPDATE if first else Phase.NONE,
            )
        self.timed.add(step)

    def _share(self, rank: int) -> float:
        """Of the merging: the server does it all; where everyone gets the same messages each rank
        does it all, which a worker alone did once; else each rank for its clients."""
        if self.run.meeting is Meeting.SERVER:
            return float(rank == 0)
        if self.run.meeting is Meeting.ALL:
            return 1.0
        return len(range(rank, self.run.clients, self.ranks)) / self.run.clients

    def _rank(self, number: int) -> int:
        return 0 if number == SERVER else number % self.ranks


def _paces(run: LearnRun) -> list[float]:
    """Seconds of a sample, as they were; at most so many, evenly spread over the run."""
    found = [w.cpu_s / w.whole_samples for r in run.rounds for w in r.works if w.samples]
    return found[:: max(1, len(found) // _PACES)]
