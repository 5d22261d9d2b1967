"""Steps that ran without instruments: how long the job takes when nobody looks.

Those before the recorded steps are the job's own. Those after it may not be: memory that torch's
profiler frees teaches the C library to give less of it back to the system, and a job that asked
for fresh pages at every step is spared them from then on (a ResNet-20 then runs 14 % faster).
Of a job on a GPU they never are: torch leaves NVIDIA's CUPTI attached, which makes every launch
longer until the process ends (a small decoder on an H200 takes 17 ms before, 30 ms after).
"""

from collections.abc import Callable, Sequence
from statistics import mean

from paceline.record.sidecar import Mode, RecordedHost, Sidecar, Step

FEW_FAULTS = 64  # fewer by so many, or by this share, are as many: 64 take 50 microseconds
FEW_SHARE = 0.1


def plain_steps(sidecars: Sequence[Sidecar]) -> list[int]:
    """Lengths in ns of all that count, in order, each the mean over the ranks."""
    before, after = plain_sides(sidecars)
    return [*before, *after]


def plain_runs(sidecars: Sequence[Sidecar]) -> list[int]:
    """What the training thread ran in them; none where a rank's kernel did not count."""
    before, after = _chosen(sidecars)
    if any(run_ns(step) is None for rank in (*before, *after) for step in rank):
        return []
    return [*_mean(before, run_ns), *_mean(after, run_ns)]


def plain_sides(sidecars: Sequence[Sidecar]) -> tuple[list[int], list[int]]:
    """Lengths before the recorded steps and after them."""
    before, after = _chosen(sidecars)
    return _mean(before, wall_ns), _mean(after, wall_ns)


def all_plain_sides(sidecars: Sequence[Sidecar]) -> tuple[list[int], list[int]]:
    """The same of all plain steps: two runs that were recorded alike may be compared with both."""
    sides = [_sides(one) for one in sidecars]
    before, after = [before for before, _ in sides], [after for _, after in sides]
    return _mean(before, wall_ns), _mean(after, wall_ns)


def _chosen(sidecars: Sequence[Sidecar]) -> tuple[list[list[Step]], list[list[Step]]]:
    """Each rank's steps before the recorded ones and after them; none after where those are not the
    job's own, and some were before."""
    sides = [_sides(one) for one in sidecars]
    befores = [before for before, _ in sides]
    spared = any(before and after and _spared(before, after) for before, after in sides)
    slowed = any(befores) and any(host.on_gpu for one in sidecars for host in one.of(RecordedHost))
    return befores, [] if spared or slowed else [after for _, after in sides]


def _sides(facts: Sidecar) -> tuple[list[Step], list[Step]]:
    """A rank's plain steps before those with instruments, and after them."""
    steps = facts.of(Step)
    plain = [step for step in steps if step.mode is Mode.PLAIN and step.steady]
    first = min((s.index for s in steps if s.mode in (Mode.DETAIL, Mode.RECORDED)), default=None)
    if first is None:
        return plain, []
    return [s for s in plain if s.index < first], [s for s in plain if s.index > first]


def _spared(before: Sequence[Step], after: Sequence[Step]) -> bool:
    usual, later = (mean(step.faults for step in steps) for steps in (before, after))
    return usual - later > max(FEW_FAULTS, usual * FEW_SHARE)


def _mean(ranks: Sequence[Sequence[Step]], of: Callable[[Step], int | None]) -> list[int]:
    """Over the ranks, of each step."""
    by_index: dict[int, list[int]] = {}
    for steps in ranks:
        for step in steps:
            by_index.setdefault(step.index, []).append(of(step) or 0)
    return [round(mean(lengths)) for _, lengths in sorted(by_index.items())]


def wall_ns(step: Step) -> int:
    return step.end_ns - step.begin_ns


def run_ns(step: Step) -> int | None:
    return step.counts.run_ns if step.counts is not None else None
