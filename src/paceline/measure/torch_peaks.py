"""Measures `Peaks`: the best rate of large products in each type, and of memory beyond caches."""

import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final

import torch

from paceline.machine import this_machine
from paceline.measure.peaks import Peaks

_FIRST: Final = 256  # side of the square products that tell whether a type is worth more
_SIDES: Final = (512, 1024)  # of those that count: the best of them
_TYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
_ELEMENTS: Final = 1 << 24  # of a float32 tensor: 64 MiB, beyond the caches
_REPEATS: Final = 20
_SLOW: Final = 0.1
"""Of the rate of float32: a type that this machine only emulates is left out."""


def measured_peaks(threads: int = 1) -> Peaks:
    """Takes about two seconds; the process's number of threads is as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rates = _rates()
        memory = 3 * 4 * _ELEMENTS / _least_ns(_added()) * 1e9
    finally:
        torch.set_num_threads(before)
    return Peaks(
        machine=this_machine(),
        threads=threads,
        flops_per_s=rates,
        memory_bytes_per_s=memory,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _rates() -> dict[str, float]:
    """By type, emulated ones left out."""
    first = {kind: _product(kind, _FIRST) for kind in _TYPES}
    real = [kind for kind in _TYPES if first[kind] > _SLOW * first[torch.float32]]
    return {_name(kind): max(_product(kind, side) for side in _SIDES) for kind in real}


def _product(kind: torch.dtype, side: int) -> float:
    """Operations per second of a square product."""
    a, b = (torch.rand(side, side).to(kind) for _ in range(2))
    out = torch.empty(side, side, dtype=kind)
    return 2 * side**3 / _least_ns(lambda: torch.mm(a, b, out=out)) * 1e9


def _added() -> Callable[[], object]:
    a, b = (torch.rand(_ELEMENTS) for _ in range(2))
    out = torch.empty(_ELEMENTS)
    return lambda: torch.add(a, b, out=out)


def _least_ns(work: Callable[[], object]) -> int:
    """The shortest run: a peak is what the machine does when nothing disturbs it."""
    found = []
    for _ in range(_REPEATS):
        begin = time.perf_counter_ns()
        work()
        found.append(time.perf_counter_ns() - begin)
    return min(found)


def _name(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")
