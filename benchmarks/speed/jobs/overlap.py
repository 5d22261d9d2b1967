"""One worker of the overlap benchmark: product, all-reduce, one after the other, and overlapped.

Rank 0 writes, for every variant and round, the slowest rank's wall seconds, and where the time of
all ranks' cores went, as JSON to the path given.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, astuple
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.speed.jobs.core_time import CoreTime, core_time

from paceline.weave.backends.chunked_product import Chunking, ChunkTransport, overlapped_product
from paceline.weave.backends.peer_link import PeerLink, connect
from paceline.weave.host import HostSettings

Run = Callable[[], object]

LINK = ((8, 0.75), (12, 0.85), (16, 0.9))
GLOO = ((4, 0.75), (8, 1.0))
"""Chunks and taper of what is tried over each transport."""


def variants(rows: int, inner: int, hidden: int, link: PeerLink | None) -> dict[str, Run]:
    """What is timed; all on one left and one right operand, and one buffer to reduce."""
    left, right = torch.randn(rows, inner), torch.randn(inner, hidden)
    out = torch.zeros(rows, hidden)

    def overlapped(transport: ChunkTransport, cut: Chunking) -> Run:
        return lambda: overlapped_product(left, right, transport, cut, out=out)

    found: dict[str, Run] = {
        "compute": lambda: torch.matmul(left, right, out=out),
        "communicate": lambda: dist.all_reduce(out.zero_()),
        "serial": lambda: dist.all_reduce(torch.matmul(left, right, out=out)),
    }
    for word, transport, cuts in (
        ("link", ChunkTransport(link=link), LINK),
        ("gloo", ChunkTransport(), GLOO),
    ):
        for chunks, taper in cuts:
            name = f"overlapped by {word}, {chunks} chunks, taper {taper}"
            found[name] = overlapped(transport, Chunking(chunks, taper))
    return found


def timed(run: Callable[[], object], core: int) -> dict[str, float]:
    """The slowest rank's seconds, and the core times of all ranks together."""
    dist.barrier()
    before, begin = core_time(core), time.perf_counter()
    run()
    wall, spent = time.perf_counter() - begin, core_time(core) - before
    worst = torch.tensor([wall], dtype=torch.float64)
    total = torch.tensor(astuple(spent), dtype=torch.float64)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    dist.all_reduce(total)
    return {"wall_s": float(worst), **asdict(CoreTime(*total.tolist()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=3, metavar=("ROWS", "INNER", "HIDDEN"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rank = int(os.environ["RANK"])
    core = rank % (os.cpu_count() or 1)
    os.sched_setaffinity(0, {core})  # a core a host: none borrows the other's
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo")
    link = connect(None, HostSettings.here())
    runs = variants(*options.shape, link)
    gc.disable()  # a collection takes longer than a round
    times: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    for turn in range(options.rounds + 2):
        for name, run in runs.items():
            row = timed(run, core)
            if turn >= 2:
                times[name].append(row)
    if dist.get_rank() == 0:
        options.out.write_text(json.dumps(times))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
