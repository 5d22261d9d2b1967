"""The machine's `Speeds`, probed in a fraction of a second by the workers of a running job."""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from paceline.measure.speeds import Speeds

ELEMENTS = 1 << 21  # 8 MiB of fp32: beyond the second-level cache, within a tenth of a second
ROWS = 256


def probed_speeds(device: str) -> Speeds:
    """All ranks call this and agree on the slowest rank's figures."""
    size = dist.get_world_size()
    source, target = torch.ones(ELEMENTS, device=device), torch.empty(ELEMENTS, device=device)
    square = torch.ones(ROWS, ROWS, device=device)
    tiny = torch.zeros(1, device=device)
    copy_s = _best_s(device, lambda: target.copy_(source))
    product_s = _best_s(device, lambda: square @ square)
    reduce_s = _best_s(device, lambda: dist.all_reduce(target))
    tiny_s = _best_s(device, lambda: dist.all_reduce(tiny))
    sent = 2 * (size - 1) / size * 4 * ELEMENTS
    figures = [copy_s, product_s, reduce_s, tiny_s]
    seconds = torch.tensor(figures, dtype=torch.float64, device=device)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    copy_s, product_s, reduce_s, tiny_s = seconds.tolist()
    return Speeds(
        memory_bytes_per_s=8 * ELEMENTS / copy_s,
        wire_bytes_per_s=max(sent, 1.0) / max(reduce_s - tiny_s, 1e-6),
        flops_per_s=2 * ROWS**3 / product_s,
        message_s=tiny_s / max(2 * (size - 1), 1),
    )


def _best_s(device: str, run: Callable[[], object], times: int = 5) -> float:
    """The fastest of a few runs, after one that warms up."""
    run()
    settle(device)
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        settle(device)
        found.append(time.perf_counter() - begin)
    return min(found)


def settle(device: str) -> None:
    """Wait for the device, where it works on its own."""
    if device == "cuda":
        torch.cuda.synchronize()
