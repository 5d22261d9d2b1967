"""What other programs ran on a job's machines while the steps that are compared ran.

The kernel tells what all programs ran, and each rank what its own process did. What is left ran
beside the job, and can have lengthened a step by as much. Unknown for recordings of versions that
did not count it, and for jobs whose loaders have workers, which are programs of their own.

Where half of the cores and more lay idle, others had cores of their own and took none.

What all programs ran is read now and then, more seldom than steps end; between two readings it is
taken to grow evenly.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from paceline.record.sidecar import Data, Mode, RecordedHost, Sidecar, Step

COVERED = 0.5  # of a stretch of steps that readings must lie around
CROWDED = 0.5  # of the cores, that all programs use where one is in the way of another


def others_ns(sidecars: Sequence[Sidecar]) -> float | None:
    """Processor time of other programs over all cores of a machine, a plain step; of the machine
    that had the most."""
    if any(batch.workers for one in sidecars for batch in one.of(Data)):
        return None
    machines: dict[tuple[str, int], list[list[Step]]] = defaultdict(list)
    for one in sidecars:
        host = one.of(RecordedHost)[0]
        machines[host.kernel, host.cores].append(one.of(Step))
    told = (_beside(ranks, cores) for (_, cores), ranks in machines.items())
    found = [each for each in told if each is not None]
    return max(found) if found and len(found) == len(machines) else None


def _beside(ranks: Sequence[Sequence[Step]], cores: int) -> float | None:
    """All ranks of a machine see the same programs; the first one's readings stand for them."""
    readings, busy = _readings(ranks[0])
    count = others = 0.0
    for stretch in _plain(ranks[0]):
        begin, end = stretch[0].begin_ns, stretch[-1].end_ns
        seen = min(end, readings[-1]) - begin
        if seen < COVERED * (end - begin):
            continue
        ran = np.interp(begin + seen, readings, busy) - np.interp(begin, readings, busy)
        within = range(stretch[0].index, stretch[-1].index + 1)
        own = sum(step.cpu_ns for steps in ranks for step in steps if step.index in within)
        count += len(stretch)
        if ran >= CROWDED * cores * seen:
            others += max(0.0, ran * (end - begin) / seen - own)
    return others / count if count else None


def _readings(steps: Sequence[Step]) -> tuple[list[int], list[int]]:
    """When what all programs ran was read, and what it came to since the first step began."""
    moments, busy = [min((step.begin_ns for step in steps), default=0)], [0]
    for step in steps:
        if step.counts is not None and step.counts.busy_ns:
            moments.append(step.end_ns)
            busy.append(busy[-1] + step.counts.busy_ns)
    return moments, busy


def _plain(steps: Sequence[Step]) -> list[list[Step]]:
    """Stretches of steps without instruments."""
    runs = groupby(steps, key=lambda step: step.mode is Mode.PLAIN and step.steady)
    return [list(run) for plain, run in runs if plain]
