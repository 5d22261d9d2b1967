"""A training loop on a data set: torch's DataLoader, and an accelerator that sleeps or computes."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import torch
from torch.utils.data import DataLoader

from paceline.feed.cached import cached_share, drop, warm
from paceline.feed.errors import FeedError
from paceline.feed.generate import DataSet
from paceline.feed.reader import OwnReader, Reader
from paceline.feed.run import Batch, Computing, FeedRun, Loading
from paceline.feed.torch_batches import Batches, Made

_SIDE: Final = 192  # of the matrices whose products stand for a training step
_PROBES: Final = 7


def run(data: DataSet, loading: Loading, own: OwnReader | None = None) -> FeedRun:
    """One pass over the data set, or so many steps of it."""
    given = data.description
    _require_steps(data, loading)
    with one_thread():
        work = _work(loading.computing, given.compute_ns)
        settle(data, loading)
        share = cached_share(data.files)
        batches = tuple(_steps(data, loading, own, work.call))
    cores = len(os.sched_getaffinity(0))
    return FeedRun(given, loading, batches, work.alone_ns, cached_share=share, cores=cores)


def loader_of(data: DataSet, loading: Loading, own: OwnReader | None = None) -> Any:
    """In the same random order each time."""
    given = data.description
    batches = Batches(Reader(data, own), given.taken_bytes)
    beside = {"prefetch_factor": loading.prefetch} if loading.workers else {}
    return DataLoader(
        batches,
        batch_size=given.batch,
        shuffle=True,
        generator=torch.Generator().manual_seed(given.seed),
        num_workers=loading.workers,
        pin_memory=loading.pinned,
        collate_fn=batches.collated,
        drop_last=True,
        **beside,
    )


def settle(data: DataSet, loading: Loading) -> None:
    """The files into the page cache, or out of it."""
    if loading.cached:
        warm(data.files)
    else:
        drop(data.files, whole=loading.drop_all)


@contextmanager
def one_thread() -> Iterator[None]:
    """A worker of a loader has one thread too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class _Work:
    call: Callable[[], object]
    alone_ns: int


def _steps(
    data: DataSet, loading: Loading, own: OwnReader | None, work: Callable[[], object]
) -> Iterator[Batch]:
    batches = iter(loader_of(data, loading, own))
    count = loading.steps or data.description.samples // data.description.batch
    for _ in range(count):
        asked, ran = time.monotonic_ns(), time.thread_time_ns()
        made = _next(batches, data)
        got, ran = time.monotonic_ns(), time.thread_time_ns() - ran
        work()
        done = time.monotonic_ns()
        yield Batch(asked, got, done, made.begun_ns, made.ready_ns, made.worker, made.cost,
                    made.collate_ns, made.collate_worked_ns, ran, made.damaged)  # fmt: skip


def _next(batches: Iterator[tuple[Any, Made]], data: DataSet) -> Made:
    """What a reader raises, in whatever process, ends the run and is told."""
    try:
        return next(batches)[1]
    except Exception as error:
        last = str(error).strip().splitlines()
        where = [line.strip() for line in last if line.strip().startswith("File ")]
        said = f"{type(error).__name__}: {last[-1] if last else ''}"
        place = f" ({where[-1]})" if where else ""
        raise FeedError(f"the reader of {data.folder} raised {said}{place}") from error


def _work(computing: Computing, wanted_ns: int) -> _Work:
    if computing is Computing.SLEEP:
        return _Work(lambda: time.sleep(wanted_ns / 1e9), wanted_ns)
    a, b = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
    out = torch.empty(_SIDE, _SIDE)
    one = _alone_ns(lambda: [torch.mm(a, b, out=out) for _ in range(20)]) / 20
    count = max(1, round(wanted_ns / one))

    def call() -> None:
        for _ in range(count):
            torch.mm(a, b, out=out)

    return _Work(call, _alone_ns(call))


def _alone_ns(call: Callable[[], object]) -> int:
    """By the thread's own clock, so that neighbours do not count."""
    found = []
    for _ in range(_PROBES):
        begin = time.thread_time_ns()
        call()
        found.append(time.thread_time_ns() - begin)
    return round(median(found))


def _require_steps(data: DataSet, loading: Loading) -> None:
    given = data.description
    there = given.samples // given.batch
    if there < 2 or loading.steps > there:
        raise FeedError(
            f"{data.folder} has {given.samples} samples, {there} batches of {given.batch}; a run "
            f"needs 2 or more, and {loading.steps or 'as many as there are'} steps were asked for. "
            "Generate it at a larger --scale, or give a smaller --batch"
        )
