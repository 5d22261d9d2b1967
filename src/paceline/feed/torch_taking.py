"""Batches taken from a worker that is busy: what the training thread runs and waits for them.

A worker's memory goes to the thread over a socket, which a thread of the worker answers. While the
worker makes its next batch that answer waits for Python's lock.
"""

import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import pairwise
from statistics import mean, median
from typing import Any, Final

from torch.utils.data import DataLoader

from paceline.feed.generate import DataSet
from paceline.feed.reader import Reader
from paceline.feed.run import Loading
from paceline.feed.torch_batches import Batches, Made
from paceline.feed.torch_run import settle

_TAKEN: Final = 24
_FIRST: Final = 6  # of these, while the pace is found
_LONGEST_NS: Final = 10_000_000_000  # then one that was seen is enough
_PUT_NS: Final = 2_000_000  # a batch that is made lies in the queue so much later
_AHEAD: Final = 0.6  # of what a batch takes to make: so long it lies ready, and the next is begun
_LEAST_AHEAD_NS: Final = 3_000_000


@dataclass(frozen=True)
class Taking:
    """Of a batch that lay ready."""

    took_ns: int = 0
    ran_ns: int = 0  # of these, on a core


def taking_of(data: DataSet, loading: Loading) -> Taking:
    """The mean of some."""
    found = list(_taken(data, loading))
    if not found:
        return Taking()
    return Taking(*(round(mean(column)) for column in zip(*map(astuple, found))))


def _taken(data: DataSet, loading: Loading) -> Iterator[Taking]:
    """At a pace that lets each batch lie a while, and the worker rest only where it makes batches
    faster than they reach the thread."""
    settle(data, loading)
    batches = iter(_endless(data, loading))
    begin, pause_ns, ready, seen = time.monotonic_ns(), 0, [], False
    for turn in range(_TAKEN):
        time.sleep(pause_ns / 1e9)
        asked, ran = time.monotonic_ns(), time.thread_time_ns()
        made: Made = next(batches)[1]
        got, ran = time.monotonic_ns(), time.thread_time_ns() - ran
        lay = asked - made.ready_ns
        if turn >= _FIRST and lay > _PUT_NS:
            yield Taking(got - asked, ran)
            seen = True
        ready.append(made.ready_ns)
        batch_ns = _batch_ns(ready)
        short_ns = max(_AHEAD * batch_ns, _LEAST_AHEAD_NS) - max(0, lay)
        pause_ns = max(0, round(batch_ns + short_ns - (got - asked)))
        if seen and got - begin > _LONGEST_NS:
            return


def _batch_ns(ready: list[int]) -> float:
    """What a batch takes the worker, by when its last ones were ready."""
    apart = [b - a for a, b in pairwise(ready[-4:])]
    return median(apart) if apart else 0.0


def _endless(data: DataSet, loading: Loading) -> Any:
    """The data set from its begin again and again, so that few batches are enough."""
    given = data.description
    there = given.samples // given.batch
    batches = Batches(Reader(data), given.taken_bytes)
    first = [turn % there * given.batch for turn in range(2 * _TAKEN)]
    return DataLoader(
        batches,
        batch_sampler=[list(range(at, at + given.batch)) for at in first],
        num_workers=1,
        prefetch_factor=loading.prefetch,
        collate_fn=batches.collated,
    )
