"""One worker of the autotuner's live test: tunes Adam without shared memory (twice) and with it,
then an epilogue, and writes what came out. `python worker_tune.py RANK RANKS FILE FOLDER`; the
workers meet at FILE."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from paceline.weave.backend import Peers
from paceline.weave.layout import Group
from paceline.weave.programs import adam, mlp
from paceline.weave.tuner import Budget, autotune


def main(rank: int, ranks: int, meeting: str, folder: Path) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=180),
    )
    group = Group.world(ranks)
    peers = Peers(rank, {group: None})
    found = []
    step, product = adam(400_000, group), mlp(64, 32, group)
    for written, backends, keep in (
        (step, ("plain", "gloo"), 4),
        (step, ("plain", "gloo"), 4),
        (step, ("cpu", "plain"), 2),
        (product, ("plain", "gloo"), 3),
    ):
        tuned = autotune(
            written,
            peers,
            backends=backends,
            budget=Budget(keep=keep, rounds=8),
            place=folder / "cache",
        )
        found.append({**tuned.document(), "cached": tuned.cached})
    (folder / f"rank{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    os._exit(0)  # an orderly end now and then meets an abort in gloo's own threads


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
