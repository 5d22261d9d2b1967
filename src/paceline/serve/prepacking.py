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
from paceline.serve.template import Template
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
    why = await _kept_as_written(template, topology, batch, said)
    template.prepacked = not why
    if why:
        said(f"weights stay as they were written: {why}")
    return template.prepacked


async def _kept_as_written(
    template: Template, topology: Topology, batch: int, said: Callable[[str], None]
) -> str:
    """Why; or nothing, where prepacked weights are better."""
    found = await template.prepack()
    if not found.weights:
        return found.why or "none of them can be prepacked"
    everything = pinned(topology, [len(topology.processors)])
    async with template.instances(everything) as (written,):
        template.prepacked = True
        async with template.instances(everything) as (ours,):
            try:
                if not same(await written.example(2, LIMIT_S), await ours.example(2, LIMIT_S)):
                    return "prepacked, they give other answers"
                sizes = sorted({1, batch})
                gains = [await _gain(written, ours, size) for size in sizes]
            except Failed as error:
                return f"prepacked, they fail: {error}"
    told = " and ".join(f"{gain:.2f} times as fast on {size}" for gain, size in zip(gains, sizes))
    if geometric_mean(gains) < LEAST_GAIN:
        return f"prepacked, they are {told}"
    norms = f", {found.folded} batch norms folded" if found.folded else ""
    said(f"{found.weights} weights prepacked for oneDNN{norms}: {told}")
    return ""


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
