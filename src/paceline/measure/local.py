"""Measure one process: matrix products, copies, element-wise work. Best of several, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable

from paceline.measure.calibration import Sweep

GEMM_SIZES = (128, 192, 256, 384, 512, 768, 1024)
BYTE_SIZES = tuple(2**k for k in range(22, 28))  # beyond the caches, where training's tensors lie


def gemm(repeats: int) -> Sweep:
    """Square float32 products, over floating-point operations."""
    import torch

    def product(n: int) -> Callable[[], object]:
        a, b = torch.rand(n, n), torch.rand(n, n)
        out = torch.empty(n, n)
        return lambda: torch.mm(a, b, out=out)

    times = [best_ns(product(n), repeats) for n in GEMM_SIZES]
    return Sweep(tuple(2.0 * n**3 for n in GEMM_SIZES), tuple(times))


def copy(repeats: int) -> Sweep:
    """Copies, over bytes read and written."""
    import torch

    def copied(size: int) -> Callable[[], object]:
        source, target = torch.rand(size // 4), torch.empty(size // 4)
        return lambda: target.copy_(source)

    times = [best_ns(copied(size), repeats) for size in BYTE_SIZES]
    return Sweep(tuple(2.0 * size for size in BYTE_SIZES), tuple(times))


def elementwise(repeats: int) -> Sweep:
    """Sums of two tensors, over bytes read and written."""
    import torch

    def added(size: int) -> Callable[[], object]:
        a, b = torch.rand(size // 4), torch.rand(size // 4)
        out = torch.empty(size // 4)
        return lambda: torch.add(a, b, out=out)

    times = [best_ns(added(size), repeats) for size in BYTE_SIZES]
    return Sweep(tuple(3.0 * size for size in BYTE_SIZES), tuple(times))


def best_ns(work: Callable[[], object], repeats: int) -> float:
    """The lower quartile of single runs: what the machine does when little else disturbs it."""
    samples = []
    for turn in range(repeats + 1):
        begin = time.perf_counter_ns()
        work()
        if turn:
            samples.append(time.perf_counter_ns() - begin)
    return float(sorted(samples)[len(samples) // 4])
