"""Images that cost time to decode, as a DataLoader brings them.

Sixty-four pictures lie in memory, each 3 x 256 x 256 bytes and compressed; a sample is one of them
brought to 3 x 32 x 32. An epoch is long enough for any run here.
"""

import zlib

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler

KINDS, SIDE, SMALL = 64, 256, 32
EPOCH = 1 << 16  # samples


class Photographs(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self) -> None:
        random = np.random.default_rng(0)
        coarse = random.integers(0, 256, (KINDS, 3, SIDE // 4, SIDE // 4), np.uint8)
        self._packed = [zlib.compress(each.repeat(4, 1).repeat(4, 2).tobytes()) for each in coarse]

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        raw = np.frombuffer(zlib.decompress(self._packed[place % KINDS]), np.uint8)
        tiles = raw.reshape(3, SMALL, SIDE // SMALL, SMALL, SIDE // SMALL)
        small = tiles.mean((2, 4), dtype=np.float32) / 127.5 - 1
        return torch.from_numpy(small), place % 10


def batches_of(size: int) -> DataLoader[tuple[torch.Tensor, torch.Tensor]]:
    """This worker's share of all samples, decoded on the thread that asks for them."""
    source = Photographs()
    sampler: DistributedSampler[tuple[torch.Tensor, int]] = DistributedSampler(
        source, dist.get_world_size(), dist.get_rank()
    )
    return DataLoader(source, batch_size=size, sampler=sampler)
