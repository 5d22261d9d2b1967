"""Job and target -> graph: the recorded step of some workers, as any number would run it.

Workers are repeated in turn, so that a recorded difference between them stays. Communication is
left unpriced: `paceline.cost.price` finds its time on the target's cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.cost.retarget.buckets import buckets_of
from paceline.cost.retarget.job import Beat, BeatKind, Job, RetargetError
from paceline.cost.retarget.target import Exchange, Target
from paceline.graph import (
    NONE,
    UNPRICED,
    Collective,
    DepKind,
    Graph,
    GraphBuilder,
    LaneKind,
    OpKind,
    Phase,
)

STEPS = 3
"""Steps of the graph. The first starts with all workers at once; later ones run as they do."""


def emit(job: Job, target: Target, steps: int = STEPS) -> Graph:
    """The graph of the job on the target's workers, buckets, batch and exchange."""
    made = _with_exchange(_rebucketed(job, target), target)
    workers = target.workers or len(job.workers)
    rows = [_scaled(made.workers[rank % len(job.workers)], target) for rank in range(workers)]
    return _Writer(replace(made, workers=tuple(rows))).graph(steps)


def _rebucketed(job: Job, target: Target) -> Job:
    """The job with gradients put together anew; the same where buckets stay as recorded."""
    if not target.bucket_bytes:
        return job
    if not job.buckets or len(job.ready_order) < len(job.parameters):
        raise RetargetError(
            "the recording does not say when each gradient is ready and which bucket it is in, so "
            "buckets cannot be changed. Record with `paceline record` a job under DDP."
        )
    sizes = [size for _, size in job.parameters]
    buckets = buckets_of(job.ready_order, sizes, target.bucket_bytes, target.first_bucket_bytes)
    kept = [i for i, call in enumerate(job.calls) if call.bucket == NONE]
    old = next(call for call in job.calls if call.bucket != NONE)
    calls = [job.calls[i] for i in kept] + [
        replace(old, size_bytes=sum(sizes[p] for p in bucket), bucket=i)
        for i, bucket in enumerate(buckets)
    ]
    place = {i: n for n, i in enumerate(kept)}
    rows = tuple(_regrouped(row, job, buckets, sizes, place, len(kept)) for row in job.workers)
    return Job(rows, tuple(calls), job.parameters, buckets)


def _regrouped(
    row: Sequence[Beat],
    job: Job,
    buckets: Sequence[Sequence[int]],
    sizes: Sequence[int],
    place: dict[int, int],
    first: int,
) -> tuple[Beat, ...]:
    """A worker's beats with the calls of `buckets` (numbered from `first`) in place of its own.

    A bucket is handed over with its last gradient. In the end the worker waits for the buckets in
    turn and copies each one back; the copies share the recorded time by their bytes.
    """
    last = {max(b, key=job.ready_order.index): first + i for i, b in enumerate(buckets)}
    head, back, tail = _ending(row, job)
    found: list[Beat] = []
    for beat in head:
        of_bucket = beat.kind in (BeatKind.CALL, BeatKind.WAIT) and beat.which not in place
        if of_bucket:
            continue
        moved = beat.kind in (BeatKind.CALL, BeatKind.WAIT)
        found.append(replace(beat, which=place[beat.which]) if moved else beat)
        if beat.kind is BeatKind.GRADIENT and beat.which in last:
            found.append(Beat(BeatKind.CALL, last[beat.which]))
    whole = sum(sizes)
    for i, bucket in enumerate(buckets):
        share = sum(sizes[p] for p in bucket) / whole
        found.append(Beat(BeatKind.WAIT, first + i))
        found += [replace(beat, dur_ns=round(beat.dur_ns * share)) for beat in back]
    return (*found, *tail)


def _ending(row: Sequence[Beat], job: Job) -> tuple[list[Beat], list[Beat], list[Beat]]:
    """A worker's beats until its first wait for a bucket, the copying back, and the update."""
    waits = [
        i
        for i, beat in enumerate(row)
        if beat.kind is BeatKind.WAIT and job.calls[beat.which].bucket != NONE
    ]
    if not waits:
        raise RetargetError(
            "the recording shows no wait for gradients, so buckets cannot be changed; record a "
            "job under DDP"
        )
    begin = waits[0]
    end = next(
        (i for i in range(waits[-1], len(row)) if _is_update(row[i])),
        len(row),
    )
    back = [beat for beat in row[begin:end] if beat.kind is BeatKind.WORK]
    late = [beat for beat in row[begin:end] if beat.kind in (BeatKind.GRADIENT, BeatKind.CALL)]
    return [*row[:begin], *late], back, list(row[end:])


def _is_update(beat: Beat) -> bool:
    return beat.kind is BeatKind.WORK and beat.which == Phase.UPDATE


def _with_exchange(job: Job, target: Target) -> Job:
    """Gradients pushed to servers and weights pulled from them, in place of all-reduce."""
    if target.exchange is Exchange.ALL_REDUCE:
        return job
    if not job.buckets:
        raise RetargetError(
            "the recording does not say which calls reduce gradients, so they cannot be sent to "
            "parameter servers. Record with `paceline record` a job under DDP."
        )
    pulls = {
        i: len(job.calls) + call.bucket for i, call in enumerate(job.calls) if call.bucket != NONE
    }
    calls = [replace(c, collective=Collective.PUSH) if i in pulls else c
             for i, c in enumerate(job.calls)]  # fmt: skip
    calls += [replace(job.calls[i], collective=Collective.PULL) for i in pulls]
    return replace(
        job, calls=tuple(calls), workers=tuple(_pulling(row, pulls) for row in job.workers)
    )


def _pulling(row: Sequence[Beat], pulls: dict[int, int]) -> tuple[Beat, ...]:
    found: list[Beat] = []
    for beat in row:
        if beat.kind is BeatKind.WAIT and beat.which in pulls:
            beat = replace(beat, which=pulls[beat.which])
        found.append(beat)
        if beat.kind is BeatKind.CALL and beat.which in pulls:
            found.append(replace(beat, which=pulls[beat.which]))
    return tuple(found)


def _scaled(row: Sequence[Beat], target: Target) -> tuple[Beat, ...]:
    """A worker's beats for another batch and device. Only forward and backward grow with it."""
    grows = (Phase.FORWARD, Phase.BACKWARD, Phase.DATA)
    found = []
    for beat in row:
        if beat.kind is BeatKind.WORK:
            factor = target.compute * (target.batch if beat.which in grows else 1.0)
            beat = replace(beat, dur_ns=round(beat.dur_ns * factor))
        found.append(beat)
    return tuple(found)


@dataclass
class _Lanes:
    work: list[int]
    talk: list[int]


class _Writer:
    """Writes a job's steps with a graph builder."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._made = GraphBuilder({"source": "retarget", "world_size": len(job.workers)})
        ranks = range(len(job.workers))
        self._group = self._made.group("workers", ranks, "data")
        self._lanes = _Lanes(
            [self._made.lane(r, "training") for r in ranks],
            [self._made.lane(r, "network", kind=LaneKind.COMM_THREAD) for r in ranks],
        )

    def graph(self, steps: int) -> Graph:
        for step in range(steps):
            instances = [self._made.instance() for _ in self._job.calls]
            for rank, row in enumerate(self._job.workers):
                self._step(rank, row, step, instances)
        return self._made.build()

    def _step(self, rank: int, row: Sequence[Beat], step: int, instances: list[int]) -> None:
        made, lane = self._made, self._lanes.work[rank]
        called: dict[int, int] = {}
        seen_backward = waited = False
        made.op("step", lane, kind=OpKind.MARKER, step=step)
        for beat in row:
            if beat.kind is BeatKind.WORK:
                seen_backward |= beat.which == Phase.BACKWARD
                phase = _phase(beat, in_backward=seen_backward and not waited)
                made.op(phase.name.lower(), lane, beat.dur_ns, phase=phase, step=step)
            elif beat.kind is BeatKind.GRADIENT:
                name = self._job.parameters[beat.which][0]
                made.op("gradient", lane, kind=OpKind.MARKER, phase=Phase.BACKWARD, tensor=name,
                        step=step)  # fmt: skip
            elif beat.kind is BeatKind.CALL:
                handed = made.op("call", lane, kind=OpKind.HOST, phase=Phase.COMMUNICATION,
                                 step=step)  # fmt: skip
                called[beat.which] = self._talk(rank, beat.which, handed, step, instances)
            else:
                waited |= self._job.calls[beat.which].bucket != NONE
                made.op("wait", lane, after=[called[beat.which]], dep=DepKind.WAIT,
                        kind=OpKind.WAIT, phase=Phase.COMMUNICATION, step=step)  # fmt: skip

    def _talk(self, rank: int, which: int, handed: int, step: int, instances: list[int]) -> int:
        call = self._job.calls[which]
        return self._made.op(
            call.collective.name.lower(),
            self._lanes.talk[rank],
            UNPRICED,
            after=[handed],
            dep=DepKind.LAUNCH,
            kind=OpKind.COLLECTIVE,
            phase=Phase.COMMUNICATION,
            collective=call.collective,
            dtype=call.dtype,
            size_bytes=call.size_bytes,
            group=self._group,
            instance=instances[which],
            step=step,
        )


def _phase(beat: Beat, *, in_backward: bool) -> Phase:
    """What lies between the first backward op and the wait for gradients is backward's."""
    inside = in_backward and beat.which in (Phase.FORWARD, Phase.NONE)
    return Phase.BACKWARD if inside else Phase(beat.which)
