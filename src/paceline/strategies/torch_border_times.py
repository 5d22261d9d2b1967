"""Time what the two sides of a thinned border do with a message, with default settings, one thread.

What is timed is the thread's processor time, as with codecs, over the bytes that a graph says each
op touches. A threshold's refresh is left out.
"""

from collections.abc import Callable
from time import thread_time_ns

import torch

from paceline.measure import OpTimes
from paceline.runtime.stages.torch_border import Before, Behind, Border
from paceline.strategies.border_topk import BorderTopK
from paceline.strategies.torch_codec_times import one_thread

SHAPES = ((4, 64), (8, 256), (32, 512), (32, 1024), (64, 4096))  # samples, and values of each
NAMES = tuple(f"{op} border_topk" for op in ("pack", "unpack", "pack back", "unpack back"))


def border_times(repeats: int) -> tuple[OpTimes, ...]:
    """Of activations, then of their gradients on the way back: both sides."""
    with one_thread():
        rows = [_row(shape, repeats) for shape in SHAPES]
    found = []
    for at, name in enumerate(NAMES):
        touched, times = zip(*(row[at] for row in rows))
        found.append(OpTimes(name, touched, times))
    return tuple(found)


def _row(shape: tuple[int, int], repeats: int) -> list[tuple[int, float]]:
    """Of each op the bytes that it touches, and the lower quartile of its times."""
    change, whole = BorderTopK(width=shape[1]), 4 * shape[0] * shape[1]
    down, up = change.down_bytes(whole), change.up_bytes(whole)
    before, behind = Before(Border(change.ratio)), Behind(Border(change.ratio))
    draw = torch.Generator().manual_seed(0)
    samples = []
    for _ in range(repeats + 1):
        made, gradient = (torch.randn(*shape, generator=draw) for _ in range(2))
        spent: list[int] = []
        message = _timed(before.close, made, spent)
        _timed(behind.open, message, spent)
        back = _timed(behind.masked, gradient, spent)
        _timed(before.gradient, back, spent)
        samples.append(spent)
    del samples[0]  # it warms up, and finds the threshold
    quartiles = [float(sorted(times)[len(times) // 4]) for times in zip(*samples)]
    return [(2 * whole + less, ns) for less, ns in zip((down, down, up, up), quartiles)]


def _timed(
    side: Callable[[torch.Tensor, int], torch.Tensor], given: torch.Tensor, spent: list[int]
) -> torch.Tensor:
    """What a side makes of the first micro-batch."""
    began = thread_time_ns()
    made = side(given, 0)
    spent.append(thread_time_ns() - began)
    return made
