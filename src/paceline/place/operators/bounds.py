"""What no split can beat, and why there may be none, without any search."""

import numpy as np

from paceline.place.operators.classes import Classes
from paceline.place.operators.split import TOLERANCE


def infeasibility(classes: Classes) -> tuple[str, ...]:
    """Reasons why no split can keep the limits; empty where none was found."""
    if classes.cpus:
        return ()
    reasons = []
    unsupported = int((classes.supported == 0).sum())
    if unsupported:
        reasons.append(
            f"{unsupported} groups of nodes are not supported on an accelerator and there is no CPU"
        )
    room = classes.memory * (1 + TOLERANCE)
    largest, total = float(classes.size.max()), float(classes.size.sum())
    if largest > room:
        reasons.append(
            f"one group of nodes occupies {largest:.6g}, an accelerator holds "
            f"{classes.memory:.6g}, and there is no CPU. Give more memory, or a CPU."
        )
    if total > classes.accelerators * room:
        reasons.append(
            f"all nodes occupy {total:.6g}, {classes.accelerators} accelerators hold "
            f"{classes.accelerators * classes.memory:.6g}, and there is no CPU. "
            "Give more memory, more accelerators, or a CPU."
        )
    return tuple(reasons)


def max_load_bound(classes: Classes) -> float:
    """No maximum load is lower: work shared out evenly, and the cheapest place of each class."""
    return max(_shared_out(classes), _dearest(classes))


def _dearest(classes: Classes) -> float:
    """The class that is dearest even where it is cheapest (a replicated one is shared)."""
    never = np.inf
    fits = (classes.supported == 1) & (classes.size <= classes.memory * (1 + TOLERANCE))
    accelerator = np.where(
        fits & (classes.accelerators > 0), classes.accelerator_time / classes.max_replicas, never
    )
    cpu = classes.cpu_time if classes.cpus else np.full(len(classes), never)
    return float(np.minimum(accelerator, cpu).max())


def _shared_out(classes: Classes) -> float:
    """Least T with all work done within T on every device, were classes divisible: the CPUs take
    what only they can run, then what they run relatively best."""
    usable = (classes.supported == 1) & (classes.accelerators > 0)
    forced = float(classes.cpu_time[~usable].sum())
    cpu, work = classes.cpu_time[usable], classes.accelerator_time[usable]
    order = np.argsort(cpu / np.maximum(work, 1e-300), kind="stable")
    cpu_sum = np.concatenate([[0.0], np.cumsum(cpu[order])])
    work_sum = np.concatenate([[0.0], np.cumsum(work[order])])

    def fits(load: float) -> bool:
        room = classes.cpus * load - forced
        if room < 0:
            return False
        taken = float(np.interp(room, cpu_sum, work_sum)) if classes.cpus else 0.0
        return bool(work_sum[-1] - taken <= classes.accelerators * load)

    low, high = 0.0, forced + float(work_sum[-1] + cpu_sum[-1])
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return low
