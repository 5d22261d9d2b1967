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
WORK_MS = (5, 10, 20, 40)
TOGETHER_TURNS, IN_A_ROW = 6, 10
PAGE_BYTES = 4096


def crowding() -> dict[str, dict[str, list[float]]]:
    """By kind of work: seconds of the first worker's, alone and beside all others, in turn. All
    workers call it together."""
    torch.set_num_threads(1)
    return {name: _in_turn(work) for name, work in (("product", _product()), ("pass", _pass()))}


def begun_together() -> dict[str, list[float]]:
    """Seconds from one reduction of a page to the next, the mean of some in a row, all workers
    having worked for so many milliseconds between them, by these; `0` is the reduction alone. Runs
    of one kind follow each other: a reduction without work would wait for those that come late, and
    take from the others what it waited."""
    page, matrix = torch.ones(PAGE_BYTES // 4), torch.ones(96, 96)

    def run(work_s: float) -> None:
        ran = time.thread_time()
        while time.thread_time() - ran < work_s:
            matrix @ matrix
        dist.all_reduce(page)

    found: dict[str, list[float]] = {str(ms): [] for ms in (0, *WORK_MS)}
    for _ in range(TOGETHER_TURNS):
        for ms in (0, *WORK_MS):
            dist.barrier()
            run(ms / 1e3)
            begun = time.perf_counter()
            for _ in range(IN_A_ROW):
                run(ms / 1e3)
            found[str(ms)].append((time.perf_counter() - begun) / IN_A_ROW)
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
