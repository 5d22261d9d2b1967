"""`Pool`: an executor whose workers hold one judge. The same for processes, Dask and Ray."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from threading import Lock
from typing import Any

from paceline.search.score import Judge, Refused, Score
from paceline.search.space import Plan


@dataclass(frozen=True)
class Pool:
    """`judge` is a `Held`, or what the executor makes one of for its tasks."""

    executor: Executor
    judge: Any
    workers: int
    died: tuple[type[BaseException], ...]  # what a task raises whose worker is gone
    die_together: bool = False  # no worker is left when one dies


_held: dict[str, Judge] = {}
_one_at_a_time = Lock()


def hold(key: str, judge: Judge) -> None:
    """Keep a judge in this process, with all that it has made ready."""
    if key not in _held:
        _held.clear()
        _held[key] = judge


def score_part(held: "Held", plans: Sequence[Plan]) -> list[Score | Refused]:
    """Runs on a worker. A judge is no thing for two threads."""
    with _one_at_a_time:
        if held.judge is not None:
            hold(held.key, held.judge)
        return [_held[held.key].score(plan) for plan in plans]


@dataclass(frozen=True)
class Held:
    """A judge as tasks are given it. Without one, the worker was given it when it began."""

    key: str
    judge: Judge | None = None
