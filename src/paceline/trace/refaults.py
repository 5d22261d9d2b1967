"""Page faults of plain steps that recorded ones are spared, or that recording adds.

A job that gives memory back to the system and asks for it anew pays for fresh pages. How many
differs from step to step, in some jobs from none to thousands. The recorded steps get those of the
plain ones before the recording in place of their own: of all steps the one with the fewest faults
gets the fewest, and so on, so that few steps with many faults stay few.
"""

from collections.abc import Sequence
from statistics import mean

import numpy as np

from paceline.record.sidecar import Cost, Mode, Sidecar, Step
from paceline.trace.trace import Int64


def refaults_ns(facts: Sidecar, numbers: Sequence[int]) -> Int64:
    """What they cost each of these recorded steps."""
    cost = (facts.of(Cost) or [Cost(op_ns=0.0)])[-1]
    before, recorded = _faults(facts)
    if not (before and recorded and cost.fault_ns):  # of earlier versions
        return np.full(len(numbers), cost.refault_ns, np.int64)
    order = sorted(recorded, key=lambda number: (recorded[number], number))
    given = dict(zip(order, dealt(sorted(before), len(order))))
    spared = [
        given[number] - recorded[number]
        if number in recorded
        else mean(before) - mean(recorded.values())
        for number in numbers
    ]
    return np.rint(np.array(spared) * cost.fault_ns).astype(np.int64)


def dealt(values: Sequence[float], parts: int) -> list[float]:
    """Sorted values as so many, each the mean of its share of them."""
    borders = np.linspace(0, len(values), parts + 1)
    sums = np.interp(borders, np.arange(len(values) + 1), np.cumsum([0.0, *values]))
    return [float(share) * parts / len(values) for share in np.diff(sums)]


def _faults(facts: Sidecar) -> tuple[list[int], dict[int, int]]:
    """Of the plain steps before the recorded ones, and of each recorded step."""
    steps = facts.of(Step)
    recorded = {step.index: step.faults for step in steps if step.mode is Mode.RECORDED}
    first = min(recorded, default=0)
    plain = [step for step in steps if step.mode is Mode.PLAIN and step.index < first]
    return [step.faults for step in plain], recorded
