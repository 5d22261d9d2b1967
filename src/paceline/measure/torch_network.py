"""A network's forward pass on this machine: as a whole, and call by call."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from paceline.cost.network import MeasuredNetwork
from paceline.imagine.torch_network import Calls
from paceline.measure.local import GEMM_SIZES, best_ns

_REPEATS: Final = 7
_WATCHED: Final = 4
_LONG_NS: Final = 400_000_000
"""A pass this long is repeated less: its share of noise is small."""


def measured(name: str, model: Any, shape: Sequence[int]) -> MeasuredNetwork:
    """Whole passes and watched ones take turns, so that both meet the machine alike."""
    given = torch.rand(tuple(shape))
    with torch.no_grad():
        first = _ns(lambda: model(given))
        repeats = _REPEATS if first < _LONG_NS else 3
        whole, watched = [], []
        calls: tuple[Any, ...] = ()
        for turn in range(repeats):
            whole.append(_ns(lambda: model(given)))
            if turn < _WATCHED:
                calls, times = _watched(model, given)
                watched.append(times)
    return MeasuredNetwork(
        name, calls, tuple(np.min(watched, axis=0).tolist()), int(np.quantile(whole, 0.25))
    )


def peak_flops_per_s(repeats: int = 9) -> float:
    """What the fastest product of large matrices reaches."""

    def product(size: int) -> Callable[[], object]:
        a, b = torch.rand(size, size), torch.rand(size, size)
        out = torch.empty(size, size)
        return lambda: torch.mm(a, b, out=out)

    sizes = [size for size in GEMM_SIZES if size >= 256]
    return max(2.0 * size**3 / (best_ns(product(size), repeats) / 1e9) for size in sizes)


def _watched(model: Any, given: Any) -> tuple[tuple[Any, ...], list[int]]:
    times: list[int] = []

    def around(call: Callable[[], Any]) -> Any:
        begin = time.perf_counter_ns()
        out = call()
        times.append(time.perf_counter_ns() - begin)
        return out

    with Calls(around) as seen:
        model(given)
    return tuple(seen.calls), times


def _ns(call: Callable[[], object]) -> int:
    begin = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - begin
