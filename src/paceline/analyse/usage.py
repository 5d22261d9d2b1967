"""What a job's step is spent on, and how much of the machine's processors it uses.

Shares are of the step of a mean rank. Computing, exposed communication, loading, waiting for a core
and the rest add up to one; communication that computing hides is inside the first. A wait for a
core is known where the kernel counts it; else it is part of the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.cost.ported import working_rows
from paceline.graph import OpKind
from paceline.predict import by_class
from paceline.record.sidecar import Mode, RecordedHost, Sidecar, Step
from paceline.replay import Timeline
from paceline.replay.steps import step_times


@dataclass(frozen=True)
class Usage:
    """Of a recorded job."""

    step_ns: float  # without instruments where such steps are known
    compute: float  # an operator runs
    communication: float  # bytes move, or others are waited for, and nothing computes
    hidden: float  # of all transfer time, the part that computing hides
    data: float  # batches are loaded, and nothing else happens
    queued: float  # a thread was ready and had no core, and nothing else happened
    rest: float  # Python between operators
    update: float  # part of the step's work that is the optimizer's
    operators: int  # of a rank in a step, those that compute
    cpu: float | None  # processor time over that of all cores of the hosts; None where not counted
    cores: float  # of all hosts


def usage_of(timeline: Timeline, sidecars: Sequence[Sidecar] = ()) -> Usage:
    graph = timeline.graph
    parts, whole = timeline.breakdown, max(1, timeline.step_ns * len(graph.ranks))
    compute = int((parts.overlapped_ns + parts.exposed_compute_ns).sum())
    exposed = int((parts.exposed_transfer_ns + parts.waiting_ns).sum())
    moved = int((parts.overlapped_ns + parts.exposed_transfer_ns).sum())
    idle = int(parts.idle_ns.sum())
    queued = min(idle, int(graph.ops.dur_ns[graph.ops.kind == OpKind.CORE_WAIT].sum()))
    classes = by_class(timeline)
    work = sum(classes[name] for name in ("forward", "backward", "update", "data"))
    steps = step_times(timeline)
    return Usage(
        step_ns=graph.facts.plain_step_ns or steps.median_ns,
        compute=compute / whole,
        communication=exposed / whole,
        hidden=int(parts.overlapped_ns.sum()) / moved if moved else 0.0,
        data=int(parts.data_loading_ns.sum()) / whole,
        queued=queued / whole,
        rest=(idle - queued) / whole,
        update=classes["update"] / work if work else 0.0,
        operators=_operators(timeline) // max(1, len(steps.number) * len(graph.ranks)),
        cpu=processor_share(sidecars),
        cores=sum(_cores(sidecars).values()) or graph.facts.cores,
    )


def processor_share(sidecars: Sequence[Sidecar]) -> float | None:
    """Of steps that ran without instruments: what all ranks' processes took of all their hosts'
    cores. Programs beside the job do not count."""
    steps = [s for one in sidecars for s in one.of(Step) if s.mode is Mode.PLAIN and s.cpu_ns]
    whole = sum(step.end_ns - step.begin_ns for step in steps) / max(1, len(sidecars))
    cores = sum(_cores(sidecars).values())
    if not whole or not cores:
        return None
    return sum(step.cpu_ns for step in steps) / (whole * cores)


def _cores(sidecars: Sequence[Sidecar]) -> dict[str, int]:
    """By host."""
    return {host.host: host.cores for one in sidecars for host in one.of(RecordedHost)}


def _operators(timeline: Timeline) -> int:
    return len(working_rows(timeline.graph))
