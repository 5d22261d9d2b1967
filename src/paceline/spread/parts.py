"""Items in parts, given to a pool's workers and taken back as they are done."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from paceline.spread.dask_workers import dask_workers
from paceline.spread.errors import SpreadError
from paceline.spread.pool import Pool, Work, answer_part
from paceline.spread.processes import processes
from paceline.spread.ray_workers import ray_workers

Workers = Callable[[str, str, Work], AbstractContextManager[Pool]]
KINDS: Mapping[str, Workers] = {
    "processes": processes,
    "dask": dask_workers,
    "ray": ray_workers,
}
Answered = tuple[Any, Any]
"""An item and its answer, or `Died`."""
Answers = Callable[[Sequence[Any]], Iterator[Answered]]
"""Answers items, here or elsewhere, and yields each as it is done, in any order."""

TRIES = 3
"""Of a part whose workers die."""


@dataclass(frozen=True)
class Died:
    """In place of an answer: each worker that was given the item died."""

    times: int


@dataclass(frozen=True)
class Parts:
    """How many items go out together."""

    most: int = 1
    least: int = 1  # where there are as many for each worker
    first: int = 64  # at most, until it is known how long an item takes
    longest_s: float = 1.0  # of a processor; who interrupts a search waits for as long
    alike: int = 1  # neighbours that share what is made for them, and so stay together

    def next(self, left: int, workers: int, item_s: float = 0.0) -> int:
        """A part costs its way there and back and what its items share, and workers are to be done
        at one time: so each gets a large one first, then ever smaller ones."""
        share = -(-left // workers)
        size = max(min(self.least, share), min(self.most, 3 * left // (4 * workers)))
        most = int(self.longest_s / item_s) if item_s else self.first
        return max(1, min(size, most))

    def dealt(self, items: Sequence[Any], many: int) -> Iterator[Sequence[Any]]:
        """So many parts of equal work: neighbours by turns to each, for what costs much often
        stands together."""
        runs = many * max(1, len(items) // (many * self.alike))
        borders = [at * len(items) // runs for at in range(runs + 1)]
        for part in range(many):
            yield [
                item
                for run in range(part, runs, many)
                for item in items[borders[run] : borders[run + 1]]
            ]


@contextmanager
def opened(on: str, work: Work, parts: Parts | None = None) -> Iterator[Answers]:
    """What answers items by `work`: here where `on` is empty, else on `processes[:N]`,
    `dask://[HOST:PORT]` or `ray://[HOST:PORT]`, one by one or in parts."""
    if not on:
        yield lambda items: zip(items, work(items), strict=True)
        return
    kind, _, where = on.partition("://" if "://" in on else ":")
    if kind not in KINDS:
        raise SpreadError(
            f"{on!r} was asked for; work is spread over processes, processes:N, dask://HOST:PORT "
            "or ray://HOST:PORT"
        )
    with ExitStack() as stack:
        spread = Spread(lambda: KINDS[kind](where, uuid4().hex, work), stack, parts or Parts())
        yield spread.answers


@dataclass(eq=False)
class Spread:
    """A pool, opened anew when all its workers are gone with one."""

    open: Callable[[], AbstractContextManager[Pool]]
    stack: ExitStack
    parts: Parts
    item_s: float = 0.0  # that an item takes a worker, as far as it was seen

    def __post_init__(self) -> None:
        self.pool = self.stack.enter_context(self.open())

    def answers(self, items: Sequence[Any]) -> Iterator[Answered]:
        parts = self._parts(items)
        waiting: dict[_Answer, Sequence[Any]] = {}
        try:
            while True:
                while len(waiting) < 2 * self.pool.workers and (part := next(parts, None)):
                    waiting[self._given(part)] = part
                if not waiting:
                    return
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for answer in done:
                    if answer not in waiting:  # lost with another
                        continue
                    part = waiting.pop(answer)
                    if not isinstance(answer.exception(), self.pool.died):
                        yield from zip(part, self._taken(answer), strict=True)
                        continue
                    lost = [part, *waiting.values()] if self.pool.die_together else [part]
                    waiting = {} if self.pool.die_together else waiting
                    yield from self._one_by_one(item for part in lost for item in part)
        finally:
            for answer in waiting:
                answer.cancel()

    def _parts(self, items: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """As many to each worker at a time."""
        at = 0
        while at < len(items):
            size = self.parts.next(len(items) - at, self.pool.workers, self.item_s)
            many = min(self.pool.workers, -(-(len(items) - at) // size))
            yield from self.parts.dealt(items[at : at + size * many], many)
            at += size * many

    def _taken(self, answer: "_Answer") -> list[Any]:
        """What a worker answered, and how long it took; the last parts tell as much as all before
        them."""
        taken_s, found = pickle.loads(answer.result())
        each_s = taken_s / len(found)
        self.item_s = (self.item_s + each_s) / 2 if self.item_s else each_s
        return list(found)

    def _given(self, part: Sequence[Any]) -> "_Answer":
        try:
            packed = pickle.dumps(part, pickle.HIGHEST_PROTOCOL)
            return self.pool.executor.submit(answer_part, self.pool.held, packed)
        except self.pool.died as error:
            failed: _Answer = Future()
            failed.set_exception(error)
            return failed

    def _one_by_one(self, items: Iterable[Any]) -> Iterator[Answered]:
        """Items of which one may have killed its worker."""
        self._renew()
        for item in items:
            yield item, self._alone(item)

    def _alone(self, item: Any) -> Any:
        for _ in range(TRIES):
            answer = self._given([item])
            if not isinstance(answer.exception(), self.pool.died):
                return self._taken(answer)[0]
            self._renew()
        return Died(TRIES)

    def _renew(self) -> None:
        if self.pool.die_together:
            self.stack.close()
            self.pool = self.stack.enter_context(self.open())


_Answer = Future[bytes]
"""Of a part: how many seconds of a processor it took, and a list; packed."""
