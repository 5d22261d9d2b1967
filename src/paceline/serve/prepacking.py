"""Whether a model's weights are prepacked: only where the same answers come sooner by that.

Two instances on all cores, one on the weights as written and one on prepacked ones, answer the
model's own example, and take turns on one sample and on the largest batch.
"""

from collections.abc import Callable
from statistics import geometric_mean, median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paceline.serve.errors import Failed
from paceline.serve.frames import Arrays
from paceline.serve.instance import Instance
from paceline.serve.template import Packing, Template
from paceline.serve.together import LIMIT_S, enough, several
from paceline.serve.topology import Topology, pinned

TURNS: Final = 7
LEAST_GAIN: Final = 1.03
"""Less is not told from noise, and not worth the memory."""
SAME: Final = 1e-3
"""Answers are the same within this share of the largest value: float32 rounds at 1e-7, and deep
models add up many of those."""


async def prepack(
    template: Template, topology: Topology, batch: int, said: Callable[[str], None]
) -> bool:
    """Prepacks, compares, and leaves the template on the better weights."""
    packing = await template.prepack()
    if packing.weights:
        better, told = await _compared(template, packing, topology, batch)
    else:
        better, told = False, packing.why or "none of them can be prepacked"
    template.prepacked = better
    said(told if better else f"weights stay as they were written: {told}")
    return better


async def _compared(
    template: Template, packing: Packing, topology: Topology, batch: int
) -> tuple[bool, str]:
    """Whether prepacked weights are better, and what was found."""
    everything = pinned(topology, [len(topology.processors)])
    sizes = sorted({1, batch})
    async with template.instances(everything) as (written,):
        template.prepacked = True
        async with template.instances(everything) as (ours,):
            try:
                if not same(await written.example(2, LIMIT_S), await ours.example(2, LIMIT_S)):
                    return False, "prepacked, they give other answers"
                gains = [await _gain(written, ours, size) for size in sizes]
            except Failed as error:
                return False, f"prepacked, they fail: {error}"
    told = " and ".join(f"{gain:.2f} times as fast on {size}" for gain, size in zip(gains, sizes))
    if geometric_mean(gains) < LEAST_GAIN:
        return False, f"prepacked, they are {told}"
    norms = f", {packing.folded} batch norms folded" if packing.folded else ""
    return True, f"{packing.weights} weights prepacked for oneDNN{norms}: {told}"


def same(ones: Arrays, others: Arrays) -> bool:
    """Two answers, but for rounding."""
    return ones.keys() == others.keys() and all(
        one.shape == other.shape
        and np.allclose(one, other, SAME, SAME * _largest(one), equal_nan=True)
        for one, other in ((ones[name], others[name]) for name in ones)
    )


def _largest(answer: npt.NDArray[Any]) -> float:
    return float(np.abs(answer[np.isfinite(answer)]).max(initial=0))


async def _gain(written: Instance, prepacked: Instance, batch: int) -> float:
    """By turns; the first of each is not counted."""
    runs: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS + 1):
        if enough(runs[0]):
            break
        for instance, mine in zip((written, prepacked), runs):
            took = await several([instance], [batch])
            mine += took if turn else []
    return median(runs[0]) / median(runs[1])
