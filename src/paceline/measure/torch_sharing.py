"""One worker in the lab of `sharing.py`: all-reduces of much and of little. Worker 0 prints JSON:

seconds of `large` all-reduces, of small ones `idle` and `busy` (all workers compute beside them),
of small ones among the first two, three, ... workers (`members`, some times), of passes after
`rests`, while the others wait, and of passes of all workers at once, alone and `beside` large
all-reduces.
"""

import json
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from paceline.measure.torch_rests import in_a_row, rests

TIMES = 3
PASSES = 8  # of work, for each all-reduce


def main(size_bytes: int, rounds: int, small_rounds: int) -> None:
    dist.init_process_group("gloo")
    large = _large(size_bytes, rounds)
    idle, busy = _small(small_rounds)
    members = {
        str(count): [_small_among(count, small_rounds // TIMES) for _ in range(TIMES)]
        for count in range(2, dist.get_world_size() + 1)
    }
    told = {"beside": _beside(size_bytes, rounds)}
    if dist.get_rank() == 0:
        found = {"large": large, "idle": idle, "busy": busy, "members": members, **told}
        print(json.dumps({**found, "rests": rests()}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def _large(size_bytes: int, rounds: int) -> list[float]:
    """The first one warms up."""
    tensor = torch.ones(size_bytes // 4)
    return [_seconds(lambda: dist.all_reduce(tensor)) for _ in range(rounds)][1:]


def _seconds(run: Callable[[], object]) -> float:
    dist.barrier()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _small(rounds: int) -> tuple[list[float], list[float]]:
    """In turn with nothing beside it and beside work, each from the last worker's call on."""
    few, matrix = torch.ones(2), torch.ones(128, 128)
    issued, ended = [], []
    for turn in range(2 * rounds):
        dist.barrier()
        issued.append(time.perf_counter())
        work = dist.all_reduce(few, async_op=True)
        while turn % 2 and not work.is_completed():
            matrix @ matrix  # a twentieth of a millisecond
        work.wait()
        ended.append(time.perf_counter())
    took = _after_the_last(issued, ended)
    return took[0::2], took[1::2]


def _after_the_last(issued: list[float], ended: list[float]) -> list[float]:
    """One clock: all workers are on this machine."""
    last = torch.tensor(issued, dtype=torch.float64)
    dist.all_reduce(last, dist.ReduceOp.MAX)
    took: list[float] = (torch.tensor(ended, dtype=torch.float64) - last).tolist()
    return took


def _beside(size_bytes: int, rounds: int) -> dict[str, object]:
    """Passes of work without messages, as many beside all-reduces, and the seconds of these."""
    torch.set_num_threads(1)
    tensor, work = torch.ones(size_bytes // 4), in_a_row()
    dist.barrier()
    alone = [work() for _ in range(PASSES * rounds)]
    beside, took = list[float](), list[float]()
    for _ in range(rounds):
        dist.barrier()
        began, reduced = time.perf_counter(), dist.all_reduce(tensor, async_op=True)
        while not reduced.is_completed():
            beside.append(work())
        reduced.wait()
        took.append(time.perf_counter() - began)
    return {"alone": alone[PASSES:], "beside": beside, "seconds": took}


def _small_among(count: int, rounds: int) -> float:
    """The lower quartile of small all-reduces among the first workers, while the others wait:
    what the machine does when little else disturbs it."""
    group = dist.new_group(list(range(count)))
    took = []
    if dist.get_rank() < count:
        few = torch.ones(2)
        for _ in range(rounds):
            dist.barrier(group)
            began = time.perf_counter()
            dist.all_reduce(few, group=group)
            took.append(time.perf_counter() - began)
    dist.barrier()
    return sorted(took)[len(took) // 4] if took else 0.0


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
