"""`price`: the step of a described job on a site, by replay, and its exact lower bound.

The stages' passes are priced by `cost.decoder`; the replay engine lays them out. Once the pipeline
is full every further micro-batch takes the same time, so a step of many follows from two smaller
numbers of them, 2 and 3 for each stage.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from paceline.cluster.machine import Rests
from paceline.cost.decoder import Chunk, DecoderPrices, Ring, Site, turns
from paceline.graph import Graph
from paceline.graph.kinds import Collective
from paceline.graph.schedules import Schedule
from paceline.imagine.decoder import Content, DecoderJob, RankPeak, Sharding, fullest
from paceline.place.hybrid.skeleton import Data, Role, Shape, Skeleton, skeleton
from paceline.predict.rests import after_rests_ns
from paceline.replay import Contention, SharedHosts, replay

_MOST_PARTS: Final = 8
"""Pieces of a pass beside which its ranks exchange, where a stage has many layers in a pipeline."""
_COMPUTE_SLOWED: Final = 1.1
_EXCHANGE_SLOWED: Final = 1.05
"""While kernels and collectives share a device: NCCL's blocks hold 16 to 24 of some 140 processors
and a part of the memory's rate (not measured here)."""
_WEIGHT_SHARE: Final = 0.5
"""Of a backward pass, the weights' gradients, where a schedule splits them off."""


@dataclass(frozen=True, eq=False)
class Priced:
    """A job's step. `bound_ns` is never more than `step_ns`."""

    job: DecoderJob
    chunks: tuple[Chunk, ...]
    step_ns: float
    bound_ns: float

    @cached_property
    def peak(self) -> RankPeak:
        return fullest(self.job)

    @property
    def tokens_per_s(self) -> float:
        """Per device."""
        tokens = self.job.recipe.global_batch * self.job.sequence
        return tokens / self.step_ns * 1e9 / self.job.degrees.world

    @property
    def flops_per_s(self) -> float:
        """Model arithmetic per device."""
        return self.tokens_per_s * self.job.model.flops_per_token(self.job.sequence)

    @cached_property
    def parts(self) -> Mapping[str, float]:
        """Nanoseconds of the busiest stage's step: kernels, exchanges it waits for, the update,
        and what is left, which is the pipeline's bubble and exchanges of the data ranks."""
        stages = self.job.degrees.pipeline
        count = self.job.microbatches
        stage = max(range(stages), key=lambda one: _busy(self.chunks[one::stages]))
        mine = self.chunks[stage::stages]
        waited = count * sum(chunk.block.exposed_ns for chunk in mine)
        update = sum(chunk.update_ns for chunk in mine)
        kernels = count * _busy(mine) - waited
        rest = max(0.0, self.step_ns - kernels - waited - update)
        return {"kernels": kernels, "exchanges": waited, "update": update, "idle": rest}


def price(job: DecoderJob, prices: DecoderPrices) -> Priced:
    chunks = chunks_of(job, prices)
    work = _Work(job, chunks, _sends(job, prices), prices.site)
    few, more = drawn(job)
    step = _step_ns(work, few)
    if job.microbatches > few:
        second = _step_ns(work, more)
        each = (second - step) / (more - few) if more > few else 0.0
        step = second + (job.microbatches - more) * each
    return Priced(job, chunks, step, bound_ns(job, chunks))


def chunks_of(job: DecoderJob, prices: DecoderPrices) -> tuple[Chunk, ...]:
    """Of every chunk; those that hold the same are priced once. Windows of attention alternate from
    layer to layer, so chunks of equal length have as many of them but for one."""
    known: dict[Content, Chunk] = {}
    for at, content in enumerate(job.contents):
        if content not in known:
            known[content] = prices.chunk(job, at)
    return tuple(known[content] for content in job.contents)


def bound_ns(job: DecoderJob, chunks: tuple[Chunk, ...]) -> float:
    """What no schedule can undercut: a stage works through all its passes in one stream, after one
    forward pass of every chunk before its first one, and before their backward passes; then its
    update. Whole-number durations may each be rounded down by half a nanosecond."""
    stages, count = job.degrees.pipeline, job.microbatches
    best = 0.0
    for stage in range(stages):
        mine = chunks[stage::stages]
        fill = sum(chunk.forward_ns for chunk in chunks[:stage])
        update = sum(chunk.update_ns for chunk in mine)
        if job.recipe.schedule is Schedule.ZERO_BUBBLE:
            drain = 0.0
        else:
            drain = sum(chunk.backward_ns for chunk in chunks[:stage])
        tail = max(update, drain)
        best = max(best, fill + count * _busy(mine) + tail)
    return best - 0.5 * 3 * len(chunks) * max(1, count)


def drawn(job: DecoderJob) -> tuple[int, int]:
    """Micro-batches that are replayed: all, or two numbers from which the rest follows."""
    stages, count = job.degrees.pipeline, job.microbatches
    few = max(2, 2 * stages)
    more = few + max(1, stages)
    return (few, more) if count > more else (count, count)


@dataclass(frozen=True, eq=False)
class _Work:
    """What is laid out: a job's chunks and messages, priced for a site."""

    job: DecoderJob
    chunks: tuple[Chunk, ...]
    sends: NDArray[np.float64]
    site: Site


def _step_ns(work: _Work, microbatches: int) -> float:
    shape = _shape(work.job, microbatches)
    found = skeleton(replace(shape, threads=work.site.machine is not None, blocking=_blocks(work)))
    took = found.durations(_table(work))
    if work.site.machine is not None:
        return _shared_ns(found.graph, took, _hosts(work, found, took), work.site.machine.rests)
    slowed = Contention.everywhere(
        found.graph, compute=_COMPUTE_SLOWED, communication=_EXCHANGE_SLOWED
    )
    return float(replay(found.graph, prices=took, contention=slowed).step_ns)


def _shared_ns(graph: Graph, took: NDArray[np.int64], hosts: SharedHosts, rests: Rests) -> float:
    """On shared cores. A first replay shows which passes follow a rest of their thread; these take
    longer until it is warm."""
    timeline = replay(graph, prices=took, hosts=hosts)
    if rests.cost:
        longer = after_rests_ns(timeline, rests)
        timeline = replay(graph, prices=longer, hosts=hosts)
    return float(timeline.step_ns)


def _blocks(work: _Work) -> bool:
    """FSDP2 asks for no handle of its collectives: over gloo the thread waits until they end."""
    return work.site.network is not None and work.job.recipe.sharding is not Sharding.NONE


def _hosts(work: _Work, found: Skeleton, took: NDArray[np.int64]) -> SharedHosts:
    """The cores that one rank of each stage has of the machine's, what bytes take of them, and what
    the messages of a collective wait for their turn on them."""
    site, machine = work.site, work.site.machine
    assert machine is not None
    sends = np.isin(found.role, (Role.SEND, Role.GATHER, Role.REDUCE))
    share = site.nic_bytes_per_s * machine.cpu_ns_per_byte / 1e9
    cpu_ns = np.where(sends, took * share, 0).astype(np.int64)
    turn_ns = np.rint(_turns(work)[found.role] * machine.turn_ns).astype(np.int64)
    cores = machine.cores / work.job.stage_ranks
    return SharedHosts.one_machine(work.job.degrees.pipeline, cores, cpu_ns, turn_ns)


def _turns(work: _Work) -> NDArray[np.float64]:
    """Messages that follow one another, by role."""
    ring, found = Ring(work.job.replicas, work.job.degrees.tensor), np.zeros(len(Role))
    found[Role.GATHER] = turns(work.site, Collective.ALL_GATHER, ring)
    found[Role.REDUCE] = turns(work.site, Collective.ALL_REDUCE, ring)
    return found


def _table(work: _Work) -> NDArray[np.float64]:
    """Nanoseconds by role and chunk."""
    job, chunks, sends = work.job, work.chunks, work.sends
    table = np.zeros((len(Role), len(chunks)))
    split = job.recipe.schedule is Schedule.ZERO_BUBBLE
    for at, chunk in enumerate(chunks):
        weight = chunk.backward_ns * _WEIGHT_SHARE if split else 0.0
        table[Role.FORWARD, at] = chunk.forward_ns
        table[Role.BACKWARD, at] = chunk.backward_ns - weight
        table[Role.WEIGHT, at] = weight
        table[Role.GATHER, at] = chunk.gather_ns
        table[Role.REDUCE, at] = chunk.reduce_ns
        table[Role.UPDATE, at] = chunk.update_ns
    table[Role.SEND] = sends
    if not job.recipe.habits.overlap_messages:
        table[: Role.WEIGHT] += sends
    return table


def _shape(job: DecoderJob, microbatches: int) -> Shape:
    r, d = job.recipe, job.degrees
    data, layers = _data(job), max(len(chunk) for chunk in job.chunks)
    parts = layers if d.pipeline == 1 else min(layers, _MOST_PARTS)
    if data in (Data.NOTHING, Data.AFTER):
        parts = 1
    if r.sharding is Sharding.NONE and r.habits.bucket_bytes:
        parts = min(parts, _buckets(job))
    return Shape(r.schedule, d.pipeline, microbatches, r.chunks, data, parts)


def _buckets(job: DecoderJob) -> int:
    """In which the fullest chunk reduces its gradients."""
    params = max(sum(share.params for share in job.shares(one)) for one in job.contents)
    return max(1, ceil(params * job.recipe.habits.gradient_bytes / job.recipe.habits.bucket_bytes))


def _data(job: DecoderJob) -> Data:
    if max(job.stage_ranks // job.degrees.expert, job.replicas) == 1:
        return Data.NOTHING
    if not job.recipe.habits.overlap_gradients:
        return Data.AFTER
    return Data.EVERY if job.regathers else Data.ENDS


def _sends(job: DecoderJob, prices: DecoderPrices) -> NDArray[np.float64]:
    stages, count = job.degrees.pipeline, len(job.chunks)
    if stages == 1:
        return np.zeros(count)
    near = prices.message_ns(job, 0, 1)
    far = prices.message_ns(job, stages - 1, 0)
    return np.array([far if at % stages == stages - 1 else near for at in range(count)])


def _busy(chunks: tuple[Chunk, ...]) -> float:
    """One micro-batch through a stage's chunks, there and back."""
    return sum(chunk.forward_ns + chunk.backward_ns for chunk in chunks)
