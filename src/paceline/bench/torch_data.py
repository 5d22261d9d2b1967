"""Training data as torch's `DataLoader` gives it: each worker its share, epoch after epoch."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from paceline.bench.errors import BenchError
from paceline.bench.workload import Setup


def drawn(seed: int) -> torch.Generator:
    """Random numbers of a seed's own."""
    return torch.Generator().manual_seed(seed)


def endless(tensors: tuple[Tensor, ...], setup: Setup) -> Iterator[Any]:
    """Batches of rows of the tensors, in another order each epoch."""
    data = TensorDataset(*(tensor[: setup.samples or None] for tensor in tensors))
    if len(data) < setup.batch * setup.workers:
        raise BenchError(
            f"{setup.workers} workers with batches of {setup.batch} need "
            f"{setup.batch * setup.workers:,} samples, and there are {len(data):,}; "
            "give a smaller --batch"
        )
    order = DistributedSampler(data, setup.workers, setup.rank, seed=setup.seed, drop_last=True)
    loader = DataLoader(data, setup.batch, sampler=order, drop_last=True)
    epoch = 0
    while True:
        order.set_epoch(epoch)
        yield from loader
        epoch += 1
