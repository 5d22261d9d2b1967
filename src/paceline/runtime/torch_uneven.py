"""Loaders that deal each global batch unevenly while a context is open.

Under a DistributedSampler the workers' k-th batches are together one stretch of one order of all
samples. Here the same stretch is cut by the workers' shares, so that the global batches, and with
weighted gradients the steps, are those of the plain job.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from paceline.record.torch_patch import Patches
from paceline.runtime.exchange import ExchangeError, Weighing
from paceline.runtime.run import Run
from paceline.runtime.torch_loaders import made_with
from paceline.runtime.uneven import parts


@contextmanager
def dealt_unevenly(run: Run, shares: Sequence[float]) -> Iterator[None]:
    """From the next iterator over a DataLoader on. What is drawn without gradients, as for an
    evaluation, stays as it is, and so do loaders that deal no parts once one was dealt anew."""
    if len(shares) != run.world_size:
        raise ExchangeError(
            f"{len(shares)} shares for {run.world_size} workers; give each worker one"
        )
    weighing, patches, begun = Weighing(), Patches(), False

    def following(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def iterate(loader: Any) -> Any:
            nonlocal begun
            stays = isinstance(loader.batch_sampler, Dealt) or not torch.is_grad_enabled()
            if stays or (begun and not _deals_parts(loader)):
                return original(loader)
            dealt, begun = _dealt(loader, shares), True
            return _weighed(original(made_with(loader, {"batch_sampler": dealt})), dealt, weighing)

        return iterate

    patches.wrap(DataLoader, "__iter__", following)
    try:
        with run.exchange.with_weights(weighing):
            yield
    finally:
        patches.undo()


class Dealt:
    """Batches of one worker: its part of every global batch."""

    def __init__(self, plain: BatchSampler, shares: Sequence[float]) -> None:
        self._plain, self._shares = plain, shares
        self._sampler = plain.sampler

    def __len__(self) -> int:
        return len(self._plain)

    def __iter__(self) -> Iterator[list[int]]:
        whole, rank = _order(self._sampler), self._sampler.rank
        at = 0
        for counts in self.counts():
            first = at + sum(counts[:rank])
            yield whole[first : first + counts[rank]]
            at += sum(counts)

    def counts(self) -> Iterator[tuple[int, ...]]:
        """Samples of every worker in each batch; the last batch may be smaller."""
        size, left = self._plain.batch_size, len(self._sampler)
        for _ in range(len(self._plain)):
            yield parts(min(size, left) * self._sampler.num_replicas, self._shares)
            left -= size

    def weights(self) -> Iterator[float]:
        for counts in self.counts():
            yield counts[self._sampler.rank] * len(counts) / sum(counts)


def _deals_parts(loader: Any) -> bool:
    """Whether its workers' batches are together one stretch of all samples."""
    plain = loader.batch_sampler
    return type(plain) is BatchSampler and isinstance(plain.sampler, DistributedSampler)


def _dealt(loader: Any, shares: Sequence[float]) -> Dealt:
    plain = loader.batch_sampler
    sampler: Any = getattr(plain, "sampler", None)
    if not _deals_parts(loader):
        raise ExchangeError(
            "batches are dealt unevenly from a DataLoader with a DistributedSampler and a batch "
            f"size; this one has {type(sampler or plain).__name__}. Give it one, or leave "
            "uneven_batches out"
        )
    if sampler.num_replicas != len(shares) or sampler.rank != dist.get_rank():
        raise ExchangeError(
            f"the sampler deals to {sampler.num_replicas} workers, this one as number "
            f"{sampler.rank}; there are {len(shares)}, and this is {dist.get_rank()}"
        )
    return Dealt(plain, shares)


def _order(sampler: Any) -> list[int]:
    """All samples as the workers take them together: the first of each, the second of each, ..."""
    every = []
    for rank in range(sampler.num_replicas):
        other = copy(sampler)
        other.rank = rank
        every.append(list(other))
    return [sample for row in zip(*every) for sample in row]


def _weighed(batches: Any, dealt: Dealt, weighing: Weighing) -> Iterator[Any]:
    """Each batch, once it is known what its gradient counts."""
    for batch, weight in zip(batches, dealt.weights()):
        weighing.now = weight
        yield batch
