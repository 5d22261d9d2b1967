"""How fast this machine moves bytes, measured in a fraction of a second on the real workers."""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from paceline.weave.traffic import Rates

ELEMENTS = 1 << 21  # 8 MiB of fp32: beyond the second-level cache, within a tenth of a second
ROWS = 256


def measured_rates() -> Rates:
    """Memory, wire, arithmetic and message costs; all ranks agree on the slowest rank's figures."""
    size = dist.get_world_size()
    source, target = torch.ones(ELEMENTS), torch.empty(ELEMENTS)
    square = torch.ones(ROWS, ROWS)
    tiny = torch.zeros(1)
    copy_s = _best_s(lambda: target.copy_(source))
    product_s = _best_s(lambda: square @ square)
    reduce_s = _best_s(lambda: dist.all_reduce(target))
    tiny_s = _best_s(lambda: dist.all_reduce(tiny))
    sent = 2 * (size - 1) / size * 4 * ELEMENTS
    seconds = torch.tensor([copy_s, product_s, reduce_s, tiny_s], dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    copy_s, product_s, reduce_s, tiny_s = seconds.tolist()
    return Rates(
        memory_bytes_per_s=8 * ELEMENTS / copy_s,
        wire_bytes_per_s=max(sent, 1.0) / max(reduce_s - tiny_s, 1e-6),
        flops_per_s=2 * ROWS**3 / product_s,
        message_s=tiny_s / max(2 * (size - 1), 1),
    )


def _best_s(run: Callable[[], object], times: int = 5) -> float:
    """The fastest of a few runs, after one that warms up."""
    run()
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return min(found)
