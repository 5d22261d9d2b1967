"""Plans in parts, given to a pool's workers and taken back as they are done."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from uuid import uuid4

from paceline.search.errors import SearchError
from paceline.search.score import Judge, Refused, Score
from paceline.search.space import Plan
from paceline.search.spread.dask_workers import dask_workers
from paceline.search.spread.pool import Pool, score_part
from paceline.search.spread.processes import processes
from paceline.search.spread.ray_workers import ray_workers
from paceline.search.trials import Scored, Scores

Workers = Callable[[str, str, Judge], AbstractContextManager[Pool]]
KINDS: Mapping[str, Workers] = {
    "processes": processes,
    "dask": dask_workers,
    "ray": ray_workers,
}
PART = 16
"""Plans that go out together, some 50 ms of work, where there are many."""
TRIES = 3
"""Of a part whose workers die."""


@contextmanager
def opened(on: str, judge: Judge) -> Iterator[Scores]:
    """What replays plans: here where `on` is empty, else `processes[:N]`, `dask://[HOST:PORT]` or
    `ray://[HOST:PORT]`."""
    if not on:
        yield lambda plans: ((plan, judge.score(plan)) for plan in plans)
        return
    kind, _, where = on.partition("://" if "://" in on else ":")
    if kind not in KINDS:
        raise SearchError(
            f"{on!r} was asked for; a search runs on processes, processes:N, dask://HOST:PORT or "
            "ray://HOST:PORT"
        )
    with ExitStack() as stack:
        spread = Spread(lambda: KINDS[kind](where, uuid4().hex, judge), stack)
        yield spread.scores


@dataclass(eq=False)
class Spread:
    """A pool, opened anew when all its workers are gone with one."""

    open: Callable[[], AbstractContextManager[Pool]]
    stack: ExitStack

    def __post_init__(self) -> None:
        self.pool = self.stack.enter_context(self.open())

    def scores(self, plans: Sequence[Plan]) -> Iterator[Scored]:
        left = [*self._parts(plans)][::-1]
        waiting: dict[_Answer, Sequence[Plan]] = {}
        try:
            while left or waiting:
                while left and len(waiting) < 2 * self.pool.workers:
                    part = left.pop()
                    waiting[self._given(part)] = part
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for answer in done:
                    if answer not in waiting:  # lost with another
                        continue
                    part = waiting.pop(answer)
                    if not isinstance(answer.exception(), self.pool.died):
                        yield from zip(part, answer.result(), strict=True)
                        continue
                    lost = [part, *waiting.values()] if self.pool.die_together else [part]
                    waiting = {} if self.pool.die_together else waiting
                    yield from self._one_by_one(plan for part in lost for plan in part)
        finally:
            for answer in waiting:
                answer.cancel()

    def _parts(self, plans: Sequence[Plan]) -> Iterator[Sequence[Plan]]:
        """Neighbours together, for they often begin alike; some parts for every worker."""
        size = max(1, min(PART, len(plans) // (3 * self.pool.workers)))
        return (plans[at : at + size] for at in range(0, len(plans), size))

    def _given(self, part: Sequence[Plan]) -> "_Answer":
        try:
            return self.pool.executor.submit(score_part, self.pool.judge, part)
        except self.pool.died as error:
            failed: _Answer = Future()
            failed.set_exception(error)
            return failed

    def _one_by_one(self, plans: Iterable[Plan]) -> Iterator[Scored]:
        """Plans of which one may have killed its worker."""
        self._renew()
        for plan in plans:
            yield plan, self._alone(plan)

    def _alone(self, plan: Plan) -> Score | Refused:
        for _ in range(TRIES):
            answer = self._given([plan])
            if not isinstance(answer.exception(), self.pool.died):
                return answer.result()[0]
            self._renew()
        return Refused(f"the worker that replayed it died, {TRIES} times in turn")

    def _renew(self) -> None:
        if self.pool.die_together:
            self.stack.close()
            self.pool = self.stack.enter_context(self.open())


_Answer = Future[list[Score | Refused]]
