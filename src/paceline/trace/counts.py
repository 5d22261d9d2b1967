"""What the machine's own counts say of a recording, as notes for people."""

from collections.abc import Iterator, Sequence
from typing import Final

from paceline.record.sidecar import Counts, Mode, RecordedHost, Sidecar, Step

NOTICED: Final = 0.01
"""Share of the recorded time from which on stolen or throttled time is worth a note."""


def count_notes(facts: Sidecar) -> Iterator[str]:
    """What happened to one rank's steps that its times alone do not say."""
    steps = [step for step in facts.of(Step) if step.mode is Mode.RECORDED]
    counts = [step.counts for step in steps if step.counts is not None]
    if counts and any(one.run_ns is None for one in counts):
        yield (
            "this kernel keeps no schedstat: waiting for a core cannot be kept apart from work, "
            "so what is predicted is less certain"
        )
    if unsteady := [step.index for step in steps if not step.steady]:
        left = "it and what follows is left out" if steps[0].steady else "times are doubtful"
        yield f"in step {unsteady[0]} a clock was set or the machine slept: {left}"
    yield from _strained(facts, steps, counts)


def _strained(facts: Sidecar, steps: Sequence[Step], counts: Sequence[Counts]) -> Iterator[str]:
    whole = sum(step.end_ns - step.begin_ns for step in steps)
    cores = max([host.cores for host in facts.of(RecordedHost)], default=0) or 1
    throttled = sum(one.throttled_ns for one in counts)
    stolen = sum(one.stolen_ns for one in counts) / cores
    if whole and throttled > NOTICED * whole:
        yield f"the container's quota throttled {100 * throttled / whole:.0f} % of the steps"
    if whole and stolen > NOTICED * whole:
        yield f"the host stole {100 * stolen / whole:.0f} % of the recorded steps"
