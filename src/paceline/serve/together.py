"""Instances that start a batch at the same moment: how long until the last has done its part."""

import asyncio
from collections.abc import Sequence

from paceline.serve.instance import Instance


async def together_ns(instances: Sequence[Instance], parts: Sequence[int], limit_s: float) -> float:
    """One batch. The clock runs from the first begin to the last end."""
    found = await asyncio.gather(
        *(one.timed(part, 1, limit_s) for one, part in zip(instances, parts) if part)
    )
    stamps = [stamp for each in found for stamp in each]
    return max(end for _, end in stamps) - min(begin for begin, _ in stamps)
