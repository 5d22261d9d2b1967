"""Batches of a data set as a DataLoader's workers make them, each with what it took."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate, get_worker_info

from paceline.feed.formats import Array
from paceline.feed.reader import Cost, Damaged, Fetched, Reader
from paceline.graph import NONE


@dataclass(frozen=True)
class Made:
    """How a batch was made."""

    begun_ns: int
    ready_ns: int
    worker: int
    cost: Cost
    collate_ns: int
    collate_worked_ns: int
    damaged: tuple[Damaged, ...]


@dataclass(frozen=True, eq=False)
class _Samples:
    fetched: list[Fetched]
    begun_ns: int


class Batches(Dataset[Any]):
    """Asked for all samples of a batch at once, so that the clock of a batch is one clock."""

    def __init__(self, reader: Reader, taken_bytes: int) -> None:
        self.reader, self.taken_bytes = reader, taken_bytes

    def __len__(self) -> int:
        return self.reader.data.description.samples

    def __getitems__(self, places: list[int]) -> _Samples:
        begun = time.monotonic_ns()
        return _Samples([self.reader.fetch(place) for place in places], begun)

    def collated(self, samples: _Samples) -> tuple[Any, Made]:
        begin, ran = time.monotonic_ns(), time.thread_time_ns()
        good = [each.sample for each in samples.fetched if each.sample is not None]
        parts = [torch.from_numpy(fitted(each, self.taken_bytes)) for each in good]
        batch = default_collate(parts) if parts else torch.zeros(0, self.taken_bytes).byte()
        info, ready = get_worker_info(), time.monotonic_ns()
        made = Made(
            begun_ns=samples.begun_ns,
            ready_ns=ready,
            worker=NONE if info is None else info.id,
            cost=sum((each.cost for each in samples.fetched), Cost()),
            collate_ns=ready - begin,
            collate_worked_ns=time.thread_time_ns() - ran,
            damaged=tuple(each.damaged for each in samples.fetched if each.damaged is not None),
        )
        return batch, made


def fitted(sample: Array, size: int) -> Array:
    """Its first bytes, so many; zeros behind a shorter one."""
    data = np.ascontiguousarray(sample).reshape(-1).view(np.uint8)[:size]
    found = np.zeros(size, np.uint8)
    found[: len(data)] = data
    return found
