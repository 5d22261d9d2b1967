"""`Judge`: finds the scores of one job's plans, one by one or many together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from paceline.errors import PacelineError
from paceline.graph import Graph
from paceline.predict import Candidates
from paceline.predict.together import Sort, sort_of, stand_apart, together
from paceline.replay import Timeline
from paceline.replay.memory_by_rank import rank_peaks
from paceline.search.errors import SearchError
from paceline.search.score import Refused, Score, score_of
from paceline.search.together import scores_of
from paceline.strategies import Strategy

MOST_OPS = 60_000
"""Of jobs that are replayed together, in all: small ones gain much by it, large ones nothing."""
WAITING_OPS = 10 * MOST_OPS
"""Of jobs among which those are looked for that can be: half a second's work."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores plans of one job; peaks of memory too, where the candidates carry it."""

    candidates: Candidates
    _known: dict[tuple[Strategy, ...], Score | Refused] = field(
        default_factory=dict, init=False, repr=False
    )

    def score(self, plan: Sequence[Strategy]) -> Score | Refused:
        """Of a plan whose job is replayed alone: what `scores` finds too."""
        asked = tuple(plan)
        if asked not in self._known:
            self._known[asked] = self._score(asked)
        return self._known[asked]

    def scores(self, plans: Iterable[Sequence[Strategy]]) -> Iterator[Score | Refused]:
        """Of each plan in turn. Jobs that may stand together are replayed so."""
        if not self._together:
            yield from map(self.score, plans)
            return
        waiting = _Waiting(self)
        for plan in plans:
            waiting.add(plan)
            if waiting.ops > WAITING_OPS:
                yield from waiting.scores()
                waiting = _Waiting(self)
        yield from waiting.scores()

    @cached_property
    def exact(self) -> "Judge":
        """The same with every rank and all detail, and with memory."""
        return Judge(self.candidates.whole)

    @cached_property
    def remembering(self) -> "Judge":
        """The same with memory."""
        return Judge(self.candidates.remembering)

    def replayed(self, plan: Sequence[Strategy]) -> tuple[Score, Timeline]:
        """A plan's score with the replay that it is of; an error where it is refused."""
        timeline = self.candidates.timeline(plan)
        workers, wanted = timeline.graph.world_size, self.candidates.world_size
        if workers != wanted:
            raise SearchError(
                f"the plan asks for {workers} workers and the job has {wanted}; "
                "predict other numbers of workers with `paceline predict --workers`"
            )
        peaks = rank_peaks(timeline) if self.candidates.memory else ()
        memory_bytes = max((peak.peak_bytes for peak in peaks), default=None)
        return score_of(timeline, memory_bytes), timeline

    @cached_property
    def _together(self) -> bool:
        asked = self.candidates
        return not asked.memory and stand_apart(asked.cluster, asked.question)

    def _score(self, plan: Sequence[Strategy]) -> Score | Refused:
        try:
            return self.replayed(plan)[0]
        except PacelineError as error:
            return Refused(str(error))


@dataclass(frozen=True, eq=False)
class _Job:
    """A plan whose changes are made, but for those that its sort names. All jobs of a sort are
    replayed together."""

    plan: Sequence[Strategy]
    graph: Graph
    sort: Sort

    @property
    def ops(self) -> int:
        return self.sort.times * len(self.graph)


@dataclass(eq=False)
class _Waiting:
    """Plans whose changes are made, and which are yet to be replayed."""

    judge: Judge
    plans: list[_Job | Score | Refused] = field(default_factory=list)
    ops: int = 0

    def add(self, plan: Sequence[Strategy]) -> None:
        asked = self.judge.candidates
        try:
            begun = asked.begun(plan)
        except PacelineError as error:
            self.plans.append(Refused(str(error)))
            return
        sort, large = sort_of(begun, asked.cluster), begun.times * len(begun.graph) > MOST_OPS
        carried = any(change.carriers() for change in plan)
        if sort is None or sort.workers != asked.world_size or large or carried:
            self.plans.append(self.judge.score(plan))
            return
        job = _Job(plan, begun.graph, sort)
        self.plans.append(job)
        self.ops += job.ops

    def scores(self) -> Iterator[Score | Refused]:
        """Of each plan in the order in which it was added; plans that came to one graph share its
        score."""
        by_sort: dict[Sort, dict[int, _Job]] = {}
        for job in self.plans:
            if isinstance(job, _Job):
                by_sort.setdefault(job.sort, {}).setdefault(id(job.graph), job)
        found: dict[tuple[Sort, int], Score | Refused] = {}
        for sort, each in by_sort.items():
            scores = chain.from_iterable(map(self._replayed, _parts(list(each.values()))))
            found |= zip(((sort, graph) for graph in each), scores, strict=True)
        for job in self.plans:
            yield found[job.sort, id(job.graph)] if isinstance(job, _Job) else job

    def _replayed(self, jobs: Sequence[_Job]) -> list[Score | Refused]:
        """Where one of them cannot be replayed, halves of them, down to that one, which says why
        by itself."""
        if len(jobs) == 1:
            return [self.judge.score(jobs[0].plan)]
        asked = self.judge.candidates
        graphs = [job.graph for job in jobs]
        try:
            return list(scores_of(together(graphs, jobs[0].sort, asked.cluster, asked.question)))
        except PacelineError:
            half = len(jobs) // 2
            return [*self._replayed(jobs[:half]), *self._replayed(jobs[half:])]


def _parts(jobs: Sequence[_Job]) -> Iterator[Sequence[_Job]]:
    """Neighbours together, as many as are replayed as one."""
    begin, ops = 0, 0
    for at, job in enumerate(jobs):
        if ops + job.ops > MOST_OPS and at > begin:
            yield jobs[begin:at]
            begin, ops = at, 0
        ops += job.ops
    yield jobs[begin:]
