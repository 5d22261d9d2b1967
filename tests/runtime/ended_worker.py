"""A worker whose fellow ends under fully_sharded while it saves.

torchrun --nproc-per-node 2 ended_worker.py OUT
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import paceline


def main() -> None:
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with paceline.applied(["fully_sharded"], model, optimizer):
        dist.barrier()
        if dist.get_rank():
            os._exit(0)
        (Path(sys.argv[1]) / "said").write_text(said(model))
    os._exit(0)


def said(model: nn.Module) -> str:
    """The other may still answer for a while."""
    while True:
        try:
            model.state_dict()
        except paceline.PacelineError as error:
            return str(error)


if __name__ == "__main__":
    main()
