"""What work takes longer when all workers compute than when one does: a product, and a pass through
memory. Told is the processor time of a worker's thread: waiting for a core is no part of it.

And by how much later than by fair shares of the cores all workers have done some work that they
begin at once: the system lays threads on cores unevenly, and moves them late.
"""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

TURNS, WARM = 7, 3
RUN_S = 0.05
PRODUCT, PASS_BYTES = 256, 16 * 2**20
WORK_MS = (2, 4, 8)
TOGETHER_TURNS = 40


def crowding() -> dict[str, dict[str, list[float]]]:
    """By kind of work: seconds of the first worker's, alone and beside all others, in turn. All
    workers call it together."""
    torch.set_num_threads(1)
    return {name: _in_turn(work) for name, work in (("product", _product()), ("pass", _pass()))}


def begun_together() -> dict[str, list[float]]:
    """Seconds from one reduction of a few bytes to the next, all having worked for so many
    milliseconds between them, by these, in turn; `0` is the reduction alone."""
    few, matrix = torch.ones(2), torch.ones(96, 96)

    def run(work_s: float) -> float:
        begun, ran = time.perf_counter(), time.thread_time()
        while time.thread_time() - ran < work_s:
            matrix @ matrix
        dist.all_reduce(few)
        return time.perf_counter() - begun

    found: dict[str, list[float]] = {str(ms): [] for ms in (0, *WORK_MS)}
    dist.barrier()
    for _ in range(TOGETHER_TURNS):
        for ms in (0, *WORK_MS):
            found[str(ms)].append(run(ms / 1e3))
    return found


def _in_turn(work: Callable[[], object]) -> dict[str, list[float]]:
    for _ in range(WARM):
        work()
    found: dict[str, list[float]] = {"alone": [], "together": []}
    for _ in range(TURNS):
        dist.barrier()
        if dist.get_rank() == 0:
            found["alone"].append(_seconds(work))
        dist.barrier()
        found["together"].append(_seconds(work))
    return found


def _seconds(work: Callable[[], object]) -> float:
    """Of one, over as many as fill a while, and one at least."""
    end, ran, count = time.perf_counter() + RUN_S, time.thread_time(), 0
    while count == 0 or time.perf_counter() < end:
        work()
        count += 1
    return (time.thread_time() - ran) / count


def _product() -> Callable[[], object]:
    a, b = torch.rand(PRODUCT, PRODUCT), torch.rand(PRODUCT, 4 * PRODUCT)
    out = torch.empty(PRODUCT, 4 * PRODUCT)
    return lambda: torch.mm(a, b, out=out)


def _pass() -> Callable[[], object]:
    a, b = (torch.rand(PASS_BYTES // 4) for _ in range(2))
    return lambda: torch.add(a, b, out=a)
