"""`Pool`: an executor whose workers hold one work. The same for processes, Dask and Ray."""

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from threading import Lock
from typing import Any

Work = Callable[[Sequence[Any]], Iterable[Any]]
"""Answers items in turn. It is sent to each worker once, with all that it holds."""


@dataclass(frozen=True)
class OneByOne:
    """A work that answers each item by itself."""

    answer: Callable[[Any], Any]

    def __call__(self, items: Sequence[Any]) -> Iterator[Any]:
        return map(self.answer, items)


@dataclass(frozen=True)
class Held:
    """A work as tasks are given it. Without one, the worker was given it when it began."""

    key: str
    work: Work | None = None

    def brought(self) -> Work:
        """Asked once of each worker."""
        assert self.work is not None, "it was given to the worker when it began"
        return self.work


@dataclass(frozen=True)
class Pool:
    """`held` is a `Held`, or what the executor makes one of for its tasks."""

    executor: Executor
    held: Any
    workers: int
    died: tuple[type[BaseException], ...]  # what a task raises whose worker is gone
    die_together: bool = False  # no worker is left when one dies


_held: dict[str, Work] = {}
_one_at_a_time = Lock()


def hold(key: str, work: Work) -> None:
    """Keep a work in this process, with all that it has made ready."""
    _held.clear()
    _held[key] = work


def answer_part(held: Held, packed: bytes) -> bytes:
    """Runs on a worker: seconds of its processor, and answers. A work is no thing for two threads.
    Items and answers travel packed, for Dask and Ray would look into each of them."""
    with _one_at_a_time:
        if held.key not in _held:
            hold(held.key, held.brought())
        begun = time.process_time()
        found = list(_held[held.key](pickle.loads(packed)))
        return pickle.dumps((time.process_time() - begun, found), pickle.HIGHEST_PROTOCOL)
