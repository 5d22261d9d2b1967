"""One worker of the all-reduce sweep; started by `reducing.py`, answers on rank 0's output in JSON.

After the sweep it measures overlap: a matrix product alone, an all-reduce alone, and both together.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from paceline.launch.torch_parting import part

SIZES = tuple(2**k for k in range(12, 26, 2))
ADDED = {"float16": torch.float16, "bfloat16": torch.bfloat16}
ADDED_SIZES = tuple(2**k for k in range(16, 26, 2))
"""Bytes of all-reduces of numbers that processors may add more slowly than float32."""


def main(store: str, rank: int, world: int, repeats: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    times = [_median_ns(_reducing(size), repeats) for size in SIZES]
    answer = {"sizes": SIZES, "times_ns": times, "overlap": _overlap(repeats)}
    answer["adding"] = {name: _adding(dtype, repeats) for name, dtype in ADDED.items()}
    if rank == 0:
        print(json.dumps(answer), flush=True)
    dist.barrier()
    part()


def _reducing(size: int, dtype: torch.dtype = torch.float32) -> Callable[[], object]:
    tensor = torch.zeros(size // dtype.itemsize, dtype=dtype)
    return lambda: dist.all_reduce(tensor)


def _adding(dtype: torch.dtype, repeats: int) -> dict[str, object]:
    """All-reduces of these numbers, and of as many bytes of float32, in turn."""
    pairs = [
        (_median_ns(_reducing(size, dtype), repeats), _median_ns(_reducing(size), repeats))
        for size in ADDED_SIZES
    ]
    own, float32 = zip(*pairs)
    return {"sizes": ADDED_SIZES, "times_ns": own, "float32_ns": float32}


def _overlap(repeats: int) -> dict[str, float]:
    """Compute and communication of about equal length, apart and together."""
    tensor, a, b = torch.ones(2**22), torch.rand(384, 384), torch.rand(384, 384)

    def computing() -> None:
        for _ in range(8):
            torch.mm(a, b)

    def talking() -> None:
        dist.all_reduce(tensor)

    alone, talk = _median_ns(computing, repeats), _median_ns(talking, repeats)
    rounds = max(1, round(talk / alone))
    spent: list[tuple[float, float]] = []
    for _ in range(repeats):
        dist.barrier()
        begin = time.perf_counter_ns()
        work = dist.all_reduce(tensor, async_op=True)
        for _ in range(rounds):
            computing()
        computed = time.perf_counter_ns() - begin
        work.wait()
        spent.append((computed, time.perf_counter_ns() - begin))
    middle = sorted(spent)[len(spent) // 2]
    return {
        "compute": max(1.0, middle[0] / (alone * rounds)),
        "communication": max(1.0, middle[1] / max(talk, alone * rounds)),
    }


def _median_ns(work: Callable[[], object], repeats: int) -> float:
    samples = []
    for turn in range(repeats + 1):
        dist.barrier()
        begin = time.perf_counter_ns()
        work()
        if turn:
            samples.append(time.perf_counter_ns() - begin)
    return float(sorted(samples)[len(samples) // 2])


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
