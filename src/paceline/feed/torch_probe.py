"""What of loading no run of the training thread shows: handing over, storage's rate, formats."""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from paceline.feed.cached import drop, warm
from paceline.feed.formats import ARRAYS, FORMATS
from paceline.feed.generate import DataSet
from paceline.feed.reader import Cost, Reader
from paceline.feed.run import FeedRun, HandOver, Loading
from paceline.feed.torch_run import one_thread, settle
from paceline.feed.torch_taking import taking_of
from paceline.graph.facts import Stored

_BATCHES: Final = 12
_FIRST: Final = 4  # of these, which find an empty queue and fresh memory
_PAUSE_S: Final = 0.03  # until the next batch lies ready
_SIDE_BY_SIDE: Final = 4
_MOST_BYTES: Final = 1 << 28
_SAMPLES: Final = 8
_FEW: Final = 24
_ROUNDS: Final = 5
_LONGEST_S: Final = 5.0  # of rounds, the first left out


def probed(run: FeedRun, data: DataSet, formats: Sequence[str] = ()) -> FeedRun:
    """The run with what this machine takes for the same batches."""
    with one_thread():
        return replace(
            run,
            hand_over=hand_over(data, run.loading),
            storage_bytes_per_s=0.0 if run.loading.cached else storage_rate(data),
            cores=cores_together(data) * run.cores,
            formats=tuple(stored_in(name, data, cached=run.loading.cached) for name in formats),
        )


def hand_over(data: DataSet, loading: Loading) -> HandOver:
    """On both sides."""
    taking = taking_of(data, loading)
    return HandOver(_sent_ns(data), taking.ran_ns, max(0, taking.took_ns - taking.ran_ns))


def _sent_ns(data: DataSet) -> int:
    """By batches of this size that take no time to make, from a worker and without one."""
    given = data.description
    premade = _Premade(given.batch, given.taken_bytes)
    alone = [_timed(default_collate, premade.samples) for _ in range(_BATCHES)][_FIRST:]
    found = iter(DataLoader(premade, batch_size=None, num_workers=1, prefetch_factor=1))
    clocks = []
    for _ in range(_BATCHES):
        time.sleep(_PAUSE_S)
        _, clock = next(found)
        clocks.append(int(clock))
    sent = median(b - a for a, b in zip(clocks[_FIRST:], clocks[_FIRST + 1 :]))
    return max(0, round(sent - median(alone)))


class _Premade(Dataset[Any]):
    """The same batch again and again, with the processor time that its worker has used."""

    def __init__(self, batch: int, size: int) -> None:
        self.samples = [torch.ones(size, dtype=torch.uint8) for _ in range(batch)]

    def __len__(self) -> int:
        return 2 * _BATCHES

    def __getitem__(self, place: int) -> Any:
        clock = time.process_time_ns()
        return default_collate(self.samples), clock


def cores_together(data: DataSet) -> float:
    """What a core does while all others work on such batches too, as a share of what it does alone:
    they share caches, memory, and on some machines the core itself. By processor time, so that who
    waits for a core does not count; the two in turn, the median of some rounds."""
    count = len(os.sched_getaffinity(0))
    warm(data.files)
    context = multiprocessing.get_context("fork")
    with context.Pool(count) as pool:
        pool.map(_worked_ns, [data] * count, 1)
        found: list[float] = []
        begin = time.monotonic()
        while len(found) < _ROUNDS and (not found or time.monotonic() - begin < _LONGEST_S):
            alone = pool.apply(_worked_ns, (data,))
            together = median(pool.map(_worked_ns, [data] * count, 1))
            found.append(alone / together if together else 1.0)
    return min(1.0, median(found))


def _worked_ns(data: DataSet) -> int:
    reader = Reader(data)
    costs = [reader.fetch(i).cost for i in range(min(_FEW, data.description.samples))]
    reader.close()
    return sum(cost.worked_ns for cost in costs)


def storage_rate(data: DataSet) -> float:
    """Bytes per second of files that are not cached, to several readers together."""
    sizes = [path.stat().st_size for path in data.files]
    count = max(1, int(np.searchsorted(np.cumsum(sizes), _MOST_BYTES)))
    files = data.files[:count]
    drop(files)
    begin = time.perf_counter()
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        list(pool.map(lambda path: warm([path]), files))
    return sum(sizes[:count]) / (time.perf_counter() - begin)


def stored_in(name: str, data: DataSet, *, cached: bool) -> Stored:
    """A batch, if these samples lay in that format, a file each."""
    given = data.description
    count = min(_SAMPLES, given.samples)
    reader = Reader(data)
    samples = [each for i in range(count) if (each := reader.fetch(i).sample) is not None]
    reader.close()
    kind = FORMATS[name]
    like = replace(given, format=name, samples=len(samples), samples_per_file=1, compression="none")
    with tempfile.TemporaryDirectory(prefix="paceline-format-", dir=data.folder) as folder:
        there = DataSet(Path(folder), like)
        for path, sample in zip(there.files, samples):
            kind.write(path, [sample])
        cost = _cost(there, cached=cached)
    times = given.batch / max(1, len(samples))
    return Stored(name, round(cost.blocked_ns * times), round(cost.worked_ns * times))


def known_formats(names: Sequence[str]) -> tuple[str, ...]:
    """`all`, or those that are named."""
    return ARRAYS if tuple(names) == ("all",) else tuple(names)


def _cost(data: DataSet, *, cached: bool) -> Cost:
    """The second reading where files are cached: the first opens libraries."""
    found = Cost()
    for again in (True, False):
        settle(data, Loading(cached=cached or again))
        reader = Reader(data)
        costs = [reader.fetch(i).cost for i in range(data.description.samples)]
        found = sum(costs, Cost())
        reader.close()
    return found


def _timed(call: Any, value: Any) -> int:
    begin = time.process_time_ns()
    call(value)
    return time.process_time_ns() - begin
