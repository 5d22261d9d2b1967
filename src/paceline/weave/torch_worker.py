"""One worker of `workers.py`: `python -m paceline.weave.torch_worker RANK MEETING REQUEST`.

Rank 0 writes the rows of the answer as JSON to its standard output.
"""

import json
import logging
import os
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from paceline.measure.torch_probe import probed_speeds
from paceline.weave.backend import Peers
from paceline.weave.backends import backend, names
from paceline.weave.backends.torch_collectives import device
from paceline.weave.layout import Group
from paceline.weave.programs.shipped import shipped
from paceline.weave.schedules import schedules
from paceline.weave.traffic import Rates
from paceline.weave.tuner import Budget, autotune, by_rates, candidates
from paceline.weave.tuning import TuningRow
from paceline.weave.workers import WorkerRequest


def main(rank: int, meeting: str, request: WorkerRequest) -> None:
    logging.getLogger("paceline.weave").setLevel(logging.ERROR)  # every schedule has its row
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=request.workers,
        timeout=timedelta(seconds=180),
    )
    found = _timed(rank, request) if request.is_timed else _predicted(request)
    if rank == 0:
        sys.stdout.write(json.dumps([row.document() for row in found]))
        sys.stdout.flush()
    dist.barrier()
    os._exit(0)  # an orderly end may meet an abort in gloo's own threads


def _predicted(request: WorkerRequest) -> list[TuningRow]:
    written = shipped(request.program).make(request.size, Group.world(request.workers))
    runners = {name: backend(name) for name in names()}
    return candidates(schedules(written), runners, by_rates(_rates(request)))


def _rates(request: WorkerRequest) -> Rates:
    """As they were calibrated; else as all workers probe them now."""
    return Rates.of(request.speeds or probed_speeds(device()))


def _timed(rank: int, request: WorkerRequest) -> list[TuningRow]:
    """By the autotuner, anew: a cached choice holds times of another day."""
    written = shipped(request.program).make(request.size, Group.world(request.workers))
    peers = Peers(rank, {group: _process_group(group) for group in written.groups})
    budget = Budget(request.keep, request.rounds)
    with tempfile.TemporaryDirectory() as folder:
        return list(
            autotune(
                written, peers, budget=budget, predict=by_rates(_rates(request)), place=Path(folder)
            ).rows
        )


def _process_group(group: Group) -> object:
    return None if group.size == dist.get_world_size() else dist.new_group(list(group.ranks))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], WorkerRequest.of(sys.argv[3]))
