"""Passes of a small network in a row and after rests: what the caches and the clock have forgotten.

The network is three layers of 1024 x 1024 for 32 rows, as a stage of a pipeline: some 8 ms. A pass
is told in its two halves, each by the processor time of its thread: a neighbour that takes the core
lengthens neither.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

WIDTH, LAYERS, ROWS = 1024, 3, 32
RESTS_MS = (1, 2, 4, 8, 16, 32, 64)
TURNS = 12  # of each rest
ROW = 6  # passes in a row

Halves = tuple[float, float]
"""Seconds of the forward and of the backward half."""


def rests() -> dict[str, Any]:
    """`row`: passes in a row. `after`: by rest in ms, passes of which each half came after one.
    `behind`: rows of passes behind the longest rest. All on one thread."""
    torch.set_num_threads(1)
    stage = _stage()
    for _ in range(ROW):
        stage(0.0)
    row, after = list[Halves](), dict[str, list[Halves]]()
    for _ in range(TURNS):
        row += [stage(0.0) for _ in range(ROW)][ROW // 2 :]
        for rest_ms in RESTS_MS:
            after.setdefault(str(rest_ms), []).append(stage(rest_ms / 1e3))
    return {"row": row, "after": after, "behind": [_behind(stage) for _ in range(TURNS)]}


def _behind(stage: Callable[[float], Halves]) -> list[Halves]:
    time.sleep(RESTS_MS[-1] / 1e3)
    return [stage(0.0) for _ in range(ROW)]


def _stage() -> Callable[[float], Halves]:
    """A pass with a rest before each of its halves."""
    parts = [part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    network, given = nn.Sequential(*parts), torch.randn(ROWS, WIDTH)
    gradient = torch.ones(ROWS, WIDTH)

    def run(rest_s: float) -> Halves:
        if rest_s:
            time.sleep(rest_s)
        begun = time.thread_time()
        made = network(given)
        forward_s = time.thread_time() - begun
        if rest_s:
            time.sleep(rest_s)
        begun = time.thread_time()
        made.backward(gradient)
        return forward_s, time.thread_time() - begun

    return run
