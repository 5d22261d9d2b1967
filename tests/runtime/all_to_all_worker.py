"""A worker that hands a part of its numbers to every other one.

torchrun --nproc-per-node 3 all_to_all_worker.py OUT
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from paceline.runtime import torch_all_to_all
from paceline.runtime.torch_all_to_all import arriving


def main() -> None:
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    told = [came(count, dtype) for dtype in (torch.float32, torch.uint8, torch.int32)]
    torch_all_to_all.is_recorded = lambda: True
    torch_all_to_all._PIECE = 8  # of 20 bytes: three calls
    told.append(came(count, torch.float32))
    (Path(sys.argv[1]) / f"rank-{rank}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def came(count: int, dtype: torch.dtype) -> list[list[int]]:
    """Of every number: a hundred times the rank that sends it, and the one that it is for; from
    columns of a matrix, which do not lie together."""
    mine = torch.arange(count, dtype=dtype).repeat(5, 1) + 100 * dist.get_rank()
    return [part.tolist() for part in map(torch.clone, arriving(mine.unbind(1), dist.group.WORLD))]


if __name__ == "__main__":
    main()
