"""Instances that start a batch at the same moment: how long until the last has done its part."""

import asyncio
from collections.abc import Sequence
from typing import Final

from paceline.serve.instance import Instance

LIMIT_S: Final = 600.0
LEAST_NS: Final = 20e6
"""Short runs are repeated for this long in each turn."""
MOST_RUNS: Final = 20
ENOUGH_NS: Final = 3e9
"""What was run for this long, and three times, is run no more."""


async def together_ns(
    instances: Sequence[Instance], parts: Sequence[int], limit_s: float = LIMIT_S
) -> float:
    """One batch. The clock runs from the first begin to the last end."""
    found = await asyncio.gather(
        *(one.timed(part, 1, limit_s) for one, part in zip(instances, parts) if part)
    )
    stamps = [stamp for each in found for stamp in each]
    return max(end for _, end in stamps) - min(begin for begin, _ in stamps)


async def several(
    instances: Sequence[Instance], parts: Sequence[int], least: int = 1
) -> list[float]:
    """So many batches at least; short ones more often."""
    found: list[float] = []
    while len(found) < least or (sum(found) < LEAST_NS and len(found) < MOST_RUNS):
        found.append(await together_ns(instances, parts))
    return found


def enough(runs_ns: Sequence[float]) -> bool:
    return len(runs_ns) >= 3 and sum(runs_ns) > ENOUGH_NS
