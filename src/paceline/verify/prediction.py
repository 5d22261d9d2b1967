"""`predict`: how long a step of a recorded job takes elsewhere, with an interval and reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from paceline.cluster import Cluster
from paceline.cost import GLOO, Basis, Prices, Rates, prices
from paceline.cost.calibrate import Overlap
from paceline.cost.retarget import Beat, BeatKind, Job, Target, emit
from paceline.errors import PacelineError
from paceline.graph import UNPRICED, Collective, Graph, OpKind, Phase
from paceline.graph.graph import Bool, Int64
from paceline.replay import Contention, SharedHosts, Timeline, replay

LAB_LIBRARY = replace(GLOO, call_ns=150_000.0, message_ns=60_000.0, basis=Basis.FITTED)
"""Gloo between namespaces of one machine: an all-reduce of 1 to 64 KB takes 0.3 to 0.4 ms between
two workers."""

ANCHOR_LEAST, ANCHOR_MOST = 0.6, 1.2
"""Recorded work is scaled by no more than this to meet the steps without instruments."""

SEGMENT_BYTES, FRAME_BYTES, ACK_BYTES = 1448, 1514, 66


def tcp_share(gso_max_segs: int) -> float:
    """Share of a link's rate that reaches the payload when data flows both ways: each unit of
    `gso_max_segs` frames is answered by one acknowledgement against the other direction's data."""
    return SEGMENT_BYTES / (FRAME_BYTES + ACK_BYTES / gso_max_segs)


class VerifyError(PacelineError):
    """A prediction cannot be made, or cannot be compared with a measurement."""


@dataclass(frozen=True)
class SharedMachine:
    """All workers on the cores of one machine, as in the lab."""

    cores: float
    cpu_ns_per_byte: float = 4.9
    """Processor time of the whole machine for a byte that a worker sends over TCP at 1 Gbit/s and
    below (sending, forwarding, receiving, adding up). Measured: four workers at 1 Gbit/s need 367
    ms for 37.8 MB each where the links alone need 319, which is 2.3 cores' worth on two."""
    turn_ns: float = 2_400_000.0
    """What a message waits for its turn, for each thread at work on its core while work takes all
    cores. Measured: 2.0 to 2.9 ms, about a slice of Linux's scheduler."""


@dataclass(frozen=True)
class Prediction:
    """A step's time. From `low_ns` to `high_ns` every op errs by what is typical of its basis
    (`paceline.cost.SPREAD`); how often that holds the truth is not known. `by_class` splits a mean
    worker's step."""

    step_ns: int
    low_ns: int
    high_ns: int
    by_class: Mapping[str, int]
    rests_on: tuple[str, ...]
    workers: int

    @property
    def spread(self) -> float:
        """Half the interval as a share of the step."""
        return (self.high_ns - self.low_ns) / 2 / max(1, self.step_ns)


def predict(
    job: Job,
    cluster: Cluster,
    target: Target | None = None,
    *,
    machine: SharedMachine | None = None,
    rates: Rates | None = None,
    overlap: Overlap | None = None,
) -> Prediction:
    """The step of a recorded job on a cluster. With `machine` its cores are shared by all; else
    compute and communication that overlap slow each other by `overlap`."""
    if machine is not None and overlap is not None:
        raise VerifyError(
            "cores shared by all workers already slow compute and communication that overlap; "
            "give the machine's cores or a calibrated overlap, not both"
        )
    target = target or Target()
    workers = target.workers or len(job.workers)
    job = anchored(job)
    cluster = cluster if cluster.workers == workers else cluster.with_workers(workers)
    graph = _slowed(emit(job, target), cluster)
    if rates is None and machine is not None:
        rates = Rates(library=LAB_LIBRARY)
    found = prices(graph, cluster, rates)
    spread = _work_spread(job)
    run = (
        _on_cores(graph, cluster, rates, found, machine)
        if machine
        else partial(replay, graph, contention=_contention(graph, overlap))
    )
    low, high = (
        _step_ns(run(prices=durations))
        for durations in (_low(graph, found, spread), _high(graph, found, spread))
    )
    timeline = run(prices=found.dur_ns)
    return Prediction(
        step_ns=_step_ns(timeline),
        low_ns=low,
        high_ns=high,
        by_class=by_class(timeline),
        rests_on=_reasons(graph, found, target),
        workers=workers,
    )


def anchored(job: Job) -> Job:
    """The job with its work scaled so that, unchanged, it takes as long as its steps took without
    instruments: what recording adds to small ops is not fully known op by op."""
    whole = sum(b.dur_ns for row in job.workers for b in row) / len(job.workers)
    if not job.plain_ns or not whole:
        return job
    graph = emit(job, Target())
    calls = np.array([call.dur_ns for call in job.calls], np.int64)
    order = np.cumsum(graph.ops.kind == OpKind.COLLECTIVE) - 1
    talks = graph.ops.kind == OpKind.COLLECTIVE
    dur = graph.ops.dur_ns.copy()
    dur[talks] = calls[order[talks] % len(calls)]
    surplus = _step_ns(replay(graph, prices=dur)) - job.plain_ns
    factor = min(ANCHOR_MOST, max(ANCHOR_LEAST, 1 - surplus / whole))
    rows = tuple(
        tuple(replace(beat, dur_ns=round(beat.dur_ns * factor)) for beat in row)
        for row in job.workers
    )
    return replace(job, workers=rows, plain_ns=0)


def predict_in_place(
    graph: Graph,
    cluster: Cluster,
    *,
    compute: float = 1.0,
    rates: Rates | None = None,
    overlap: Overlap | None = None,
) -> Prediction:
    """The recorded graph itself on another cluster or device: for jobs of any parallelism, whose
    workers and buckets stay as they are."""
    contention = _contention(graph, overlap)
    dur = graph.ops.dur_ns.copy()
    work = is_work(graph) & (dur > 0)
    dur[work] = np.rint(dur[work] * compute)
    found = prices(replace(graph, ops=replace(graph.ops, dur_ns=dur)), cluster, rates)
    middle, low, high = (
        replay(graph, prices=durations, contention=contention)
        for durations in (found.dur_ns, found.low_ns, found.high_ns)
    )
    return Prediction(
        step_ns=_step_ns(middle),
        low_ns=_step_ns(low),
        high_ns=_step_ns(high),
        by_class=by_class(middle),
        rests_on=_reasons(graph, found, Target(compute=compute)),
        workers=int(graph.meta.get("world_size", 0)) or len(graph.ranks),
    )


def by_class(timeline: Timeline) -> dict[str, int]:
    """Where a mean worker's step goes on its training thread, in ns: its work by phase as long as
    it took, waiting for communication, and communication itself (hidden or not) beside them."""
    graph, count = timeline.graph, len(timeline.graph.ranks)
    last = graph.ops.step == graph.ops.step.max()
    took = (timeline.end_ns - timeline.start_ns) * last
    found = {
        phase.name.lower(): int(took[(graph.ops.phase == phase) & is_work(graph)].sum()) // count
        for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.DATA)
    }
    talks = graph.ops.kind == OpKind.COLLECTIVE
    found["communication"] = int(took[talks].sum()) // count
    found["exposed"] = max(0, _step_ns(timeline) - sum(found[k] for k in WORK_CLASSES))
    return found


WORK_CLASSES = ("forward", "backward", "update", "data")


def is_work(graph: Graph) -> Bool:
    return np.isin(graph.ops.kind, (OpKind.COMPUTE, OpKind.HOST))


def _contention(graph: Graph, overlap: Overlap | None) -> Contention | None:
    return Contention.calibrated(graph, overlap) if overlap else None


def _on_cores(
    graph: Graph, cluster: Cluster, rates: Rates | None, found: Prices, machine: SharedMachine
) -> "partial[Timeline]":
    """Replays the graph where its workers share the machine's cores."""
    workers = cluster.workers
    rates = rates or Rates()
    library = rates.library_of(cluster)
    library = replace(library, message_ns=library.message_ns + machine.turn_ns)
    turn_ns = prices(graph, cluster, replace(rates, library=library)).dur_ns - found.dur_ns
    hosts = SharedHosts.one_machine(
        workers,
        machine.cores,
        cpu_ns=_cpu_ns(graph, workers, machine),
        turn_ns=np.where(graph.ops.kind == OpKind.COLLECTIVE, turn_ns, 0),
    )
    return partial(replay, graph, hosts=hosts)


def _cpu_ns(graph: Graph, workers: int, machine: SharedMachine) -> Int64:
    """Processor time of each communication op, by the bytes that its worker sends."""
    ops = graph.ops
    around = 2 * (workers - 1) / workers  # what a ring, or sharded servers, send of each byte
    sent = np.where(ops.kind == OpKind.COLLECTIVE, ops.size_bytes, 0).astype(np.float64)
    sent[ops.collective == Collective.ALL_REDUCE] *= around
    sent[np.isin(ops.collective, (Collective.PUSH, Collective.PULL))] *= around / 2
    return np.rint(sent * machine.cpu_ns_per_byte).astype(np.int64)


def _step_ns(timeline: Timeline) -> int:
    """The last step, from border to border: the first begins with all workers at once."""
    steps = np.unique(timeline.graph.ops.step)
    ends = [int(timeline.end_ns[timeline.graph.ops.step == step].max()) for step in steps]
    return ends[0] if len(ends) == 1 else (ends[-1] - ends[0]) // (len(ends) - 1)


def _slowed(graph: Graph, cluster: Cluster) -> Graph:
    """Work of workers whose host has less than a core for each takes longer."""
    dur = graph.ops.dur_ns.copy()
    for rank in graph.ranks:
        cpus = cluster.hosts[cluster.place_of(rank)[0]].cpus
        if 0 < cpus < 1:
            mine = (graph.ops.rank == rank) & is_work(graph)
            dur[mine] = np.rint(dur[mine] / cpus)
    return replace(graph, ops=replace(graph.ops, dur_ns=dur))


def _work_spread(job: Job) -> float:
    """Half of p10 to p90 of a recorded step's work: stretches vary together, so they are summed."""
    work: list[Beat] = [b for row in job.workers for b in row if b.kind is BeatKind.WORK]
    whole = sum(b.dur_ns for b in work)
    return sum(b.dur_ns * b.spread for b in work) / whole if whole else 0.0


def _low(graph: Graph, found: Prices, spread: float) -> Int64:
    work = np.rint(found.dur_ns / (1 + spread)).astype(np.int64)
    return np.where(is_work(graph), work, found.low_ns)


def _high(graph: Graph, found: Prices, spread: float) -> Int64:
    work = np.rint(found.dur_ns * (1 + spread)).astype(np.int64)
    return np.where(is_work(graph), work, found.high_ns)


def _reasons(graph: Graph, found: Prices, target: Target) -> tuple[str, ...]:
    """What the prediction rests on, in words."""
    talks = graph.ops.kind == OpKind.COLLECTIVE
    said = ["work: recorded, median of the recorded steps"]
    if target.compute != 1 or target.batch != 1:
        said = [f"work: recorded, times {target.compute * target.batch:.3g} (datasheet, linear)"]
    if (graph.ops.dur_ns[is_work(graph)] == UNPRICED).any():
        work = sorted(set(found.basis[is_work(graph)].tolist()))
        said = [f"work: {', '.join(Basis(basis).name.lower() for basis in work)}"]
    if Basis.SCALED in found.basis[~talks]:
        said = ["kernels: recorded on another device, by wave scaling (Habitat)"]
    for basis in sorted(set(found.basis[talks].tolist())):
        said.append(f"communication: {Basis(basis).name.lower()}")
    return tuple(said)
