"""Plans of one job replayed many together, whatever is then read from their replays.

Jobs that may stand together are replayed so, as many as fit; all others, and those that turn out
not to be replayable beside others, by themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from paceline.errors import PacelineError
from paceline.predict import Candidates
from paceline.predict.candidates import Begun
from paceline.predict.together import Sort, Together, sort_of, stand_apart, together
from paceline.search.score import Refused
from paceline.strategies import Strategy

MOST_OPS = 60_000
"""Of jobs that are replayed together, in all: small ones gain much by it, large ones nothing."""
WAITING_OPS = 10 * MOST_OPS
"""Of jobs among which those are looked for that can be: half a second's work."""

_Plan = Sequence[Strategy]
Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Reading(Generic[Answer]):
    """What is read from the replay of a plan alone, and of several together in turn: the same."""

    alone: Callable[[_Plan], Answer]
    many: Callable[[Together], Iterable[Answer]]


def read(
    reading: Reading[Answer], job: Candidates, plans: Iterable[_Plan]
) -> Iterator[Answer | Refused]:
    """Of each plan in turn."""
    if job.memory or not stand_apart(job.cluster, job.question):
        yield from map(reading.alone, plans)
        return
    waiting = _Waiting(job, reading)
    for plan in plans:
        waiting.add(plan)
        if waiting.ops > WAITING_OPS:
            yield from waiting.answers()
            waiting = _Waiting(job, reading)
    yield from waiting.answers()


@dataclass(frozen=True, eq=False)
class _Job:
    """A plan whose changes are made, but for the last of them. All jobs of a sort are replayed
    together."""

    plan: _Plan
    begun: Begun
    sort: Sort

    @property
    def ops(self) -> int:
        return self.begun.times * len(self.begun.graph)

    @property
    def made(self) -> "_Made":
        """What plans share that come to one graph."""
        return id(self.begun.graph), self.begun.rest


_Made = tuple[int, tuple[Strategy, ...]]


@dataclass(frozen=True, eq=False)
class _Alone:
    plan: _Plan


@dataclass(eq=False)
class _Waiting(Generic[Answer]):
    """Plans whose changes are made, and which are yet to be replayed."""

    job: Candidates
    reading: Reading[Answer]
    plans: list[_Job | _Alone | Refused] = field(default_factory=list)
    ops: int = 0

    def add(self, plan: _Plan) -> None:
        try:
            begun = self.job.begun(plan)
        except PacelineError as error:
            self.plans.append(Refused(str(error)))
            return
        sort, large = sort_of(begun, self.job.cluster), begun.times * len(begun.graph) > MOST_OPS
        carried = any(change.carriers() for change in plan)
        if sort is None or sort.workers != self.job.world_size or large or carried:
            self.plans.append(_Alone(plan))
            return
        job = _Job(plan, begun, sort)
        self.plans.append(job)
        self.ops += job.ops

    def answers(self) -> Iterator[Answer | Refused]:
        """Of each plan in the order in which it was added."""
        by_sort: dict[Sort, dict[_Made, _Job]] = {}
        for job in self.plans:
            if isinstance(job, _Job):
                by_sort.setdefault(job.sort, {}).setdefault(job.made, job)
        found: dict[_Made, Answer | Refused] = {}
        for each in by_sort.values():
            for part in _parts(_ending_alike(list(each.values()))):
                found |= zip((job.made for job in part), self._read(part), strict=True)
        for job in self.plans:
            if isinstance(job, _Alone):
                yield self.reading.alone(job.plan)
            else:
                yield found[job.made] if isinstance(job, _Job) else job

    def _read(self, jobs: Sequence[_Job]) -> list[Answer | Refused]:
        """Where one of them cannot be replayed, halves of them, down to that one, which says why
        by itself."""
        if len(jobs) == 1:
            return [self.reading.alone(jobs[0].plan)]
        begun, found = [job.begun for job in jobs], dict[int, Answer | Refused]()
        try:
            for some in together(begun, self.job.cluster, self.job.question):
                found |= zip(some.rows, self.reading.many(some), strict=True)
        except PacelineError:
            half = len(jobs) // 2
            return [*self._read(jobs[:half]), *self._read(jobs[half:])]
        return [found[row] for row in range(len(jobs))]


def _ending_alike(jobs: Sequence[_Job]) -> list[_Job]:
    """Those whose plans end alike as neighbours: their last changes are made at once."""
    number: dict[Strategy, int] = {}
    for job in jobs:
        for change in job.begun.rest:
            number.setdefault(change, len(number))
    return sorted(jobs, key=lambda job: [number[change] for change in reversed(job.begun.rest)])


def _parts(jobs: Sequence[_Job]) -> Iterator[Sequence[_Job]]:
    """Neighbours together, as many as are replayed as one."""
    begin, ops = 0, 0
    for at, job in enumerate(jobs):
        if ops + job.ops > MOST_OPS and at > begin:
            yield jobs[begin:at]
            begin, ops = at, 0
        ops += job.ops
    yield jobs[begin:]
