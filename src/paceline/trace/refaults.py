"""Page faults of plain steps that recorded ones are spared, or that recording adds.

A job that gives memory back to the system and asks for it anew pays for fresh pages. How many
differs from step to step; each recorded step gets the mean of the plain ones before the recording
in place of its own.
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
    usual, given = mean(recorded.values()), mean(before)
    spared = [given - recorded.get(number, usual) for number in numbers]
    return np.rint(np.array(spared) * cost.fault_ns).astype(np.int64)


def _faults(facts: Sidecar) -> tuple[list[int], dict[int, int]]:
    """Of the plain steps before the recorded ones, and of each recorded step."""
    steps = facts.of(Step)
    recorded = {step.index: step.faults for step in steps if step.mode is Mode.RECORDED}
    first = min(recorded, default=0)
    plain = [step for step in steps if step.mode is Mode.PLAIN and step.index < first]
    return [step.faults for step in plain], recorded
