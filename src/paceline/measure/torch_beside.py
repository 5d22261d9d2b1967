"""One worker in the labs of `beside.py`: what work loses beside all-reduces. Worker 0 prints JSON:

by size, for each turn, how long an all-reduce took and what share of its work a worker did less
meanwhile than with nothing beside it, the mean of all workers. The work is that of a training: two
layers, forward and backward, whose weights and gradients fill caches.
"""

import json
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from paceline.launch.torch_parting import part

WIDTH, INNER, ROWS = 256, 1024, 32  # two to four milliseconds


def main(turns: int, *asked: str) -> None:
    """`asked`: size and number of all-reduces in a turn, as SIZExCOUNT."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    work = _work()
    found: dict[int, list[tuple[float, float]]] = {}
    for size, count in [map(int, each.split("x")) for each in turns * asked]:
        found.setdefault(size, []).append(_turn(torch.ones(size // 4), count, work))
    if dist.get_rank() == 0:
        print(json.dumps({"lost": found}), flush=True)
    dist.barrier()
    part()


def _work() -> Callable[[], object]:
    layers = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, INNER), torch.nn.ReLU(), torch.nn.Linear(INNER, WIDTH)
    )
    batch = torch.randn(ROWS, WIDTH)

    def work() -> None:
        layers.zero_grad()
        layers(batch).sum().backward()

    work()
    return work


def _turn(tensor: torch.Tensor, count: int, work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of an all-reduce of so many in a row, and the share of work that they cost."""
    dist.barrier()
    began, done = time.perf_counter(), 0
    calls = [dist.all_reduce(tensor.clone(), async_op=True) for _ in range(count)]
    while not all(call.is_completed() for call in calls):
        work()
        done += 1
    took = time.perf_counter() - began
    dist.barrier()
    told = torch.tensor([took / count, 1 - done / took / _alone(work, took)], dtype=torch.float64)
    dist.all_reduce(told)
    call_s, lost = (told / dist.get_world_size()).tolist()
    return call_s, lost


def _alone(work: Callable[[], object], seconds: float) -> float:
    """How much of it a second holds, while every worker does it and nothing else."""
    began, done = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds or not done:
        work()
        done += 1
    return done / took


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
