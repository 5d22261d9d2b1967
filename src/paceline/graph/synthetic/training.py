"""Training jobs as recordings show them: facts, axes, gradients, waits, several steps.

Unlike the other generators this one says what a change must know of a job, in the shapes that a
recording has: a training thread with gloo's threads beside it, or a host thread that feeds a
compute stream and NCCL's. A change made on a small job can so be held against the job generated
with that change.
"""

from dataclasses import dataclass, replace

import numpy as np

from paceline.graph.graph import Graph
from paceline.graph.hierarchy import Levels
from paceline.graph.kinds import Axis, Collective, Phase
from paceline.graph.late_update import shares
from paceline.graph.partition import part_sizes
from paceline.graph.rounds import Round, Rounds, fragments_of
from paceline.graph.schedules import Schedule, TaskKind, order
from paceline.graph.synthetic.training_job import (
    Parallel,
    ReplicaExchange,
    TrainingJob,
    facts_of,
    names_of,
    size_of,
)
from paceline.graph.synthetic.training_lanes import Drawing, MachineKind, Message, SentCollective


def training(job: TrainingJob) -> Graph:
    """The graph of all steps on all ranks."""
    drawing = Drawing(job.machine, facts_of(job))
    random = np.random.default_rng(job.seed)
    under_way: dict[tuple[int, int, Round], int] = {}
    left: dict[int, list[_Bucket]] = {}  # by rank: what its step before did not wait for
    for step in range(job.steps):
        for rank in range(job.world):
            worker = _Rank(job, drawing, rank, step, random)
            worker.draw(left.get(rank, []))
            worker.exchange_weights(step, under_way)
            worker.pen.end()
            left[rank] = worker.reducing
    return drawing.builder.build()


@dataclass(frozen=True)
class _Bucket:
    """Gradients handed over together."""

    names: tuple[str, ...]
    size_bytes: int
    calls: tuple[int, ...]  # that give them back

    def of(self, layer: int) -> bool:
        return not set(self.names).isdisjoint(names_of(layer))


class _Rank:
    """One rank's step, told in order to the drawing of its machine."""

    def __init__(
        self, job: TrainingJob, drawing: Drawing, rank: int, step: int, random: np.random.Generator
    ) -> None:
        self.job, self.random = job, random
        self.inner, rest = rank % job.tensor, rank // job.tensor
        self.replica, self.stage = rest % job.workers, rest // job.workers
        self.pen = drawing.begin(rank, step)
        self.buckets = self.cut()  # those that are not handed over
        self.arrived: set[str] = set()  # gradients that are ready
        self.reducing: list[_Bucket] = []  # handed over
        self.before: list[_Bucket] = []  # handed over in the step before
        self.left: list[_Bucket] = []  # of these, not yet waited for
        self.turn = 0  # the pass that is drawn

    def draw(self, left: list[_Bucket]) -> None:
        job = self.job
        if job.late:
            self.before, self.left = left, list(left)
        for turn in range(job.passes):
            self.turn = turn
            if turn:
                self.pen.end()
            self.compute()
        if job.early:
            self.update_early()
        self.give_back()
        self.update()

    def compute(self) -> None:
        """A forward and backward pass of every micro-batch."""
        job = self.job
        self.pen.load(self.varied(job.load_ns * job.batch))
        passes = order(Schedule.ONE_F_ONE_B, self.stage, job.stages, job.micro_batches, 1)
        for task in passes:
            if task.work is TaskKind.FORWARD:
                self.forward(task.microbatch)
            else:
                self.backward(task.microbatch)

    def forward(self, micro_batch: int) -> None:
        self.receive(Phase.FORWARD, self.stage - 1, micro_batch)
        for layer in self.layers():
            self.gather()
            self.update_late(layer)
            self.work("addmm", self.job.forward_ns, Phase.FORWARD, layer)
            self.sum_activations()
        self.send(Phase.FORWARD, self.stage + 1, micro_batch)

    def backward(self, micro_batch: int) -> None:
        self.receive(Phase.BACKWARD, self.stage + 1, micro_batch)
        last = (self.turn, micro_batch) == (self.job.passes - 1, self.job.micro_batches - 1)
        for layer in reversed(self.layers()):
            if self.job.gathers_again:
                self.gather()
            for name in names_of(layer):
                if not self.held_back(name):
                    self.gradient(layer, name, last=last)
            self.sum_activations()
            self.scatter(layer)
        for layer in self.job.held_back:
            self.gradient(layer, names_of(layer)[1], last=last)
        self.send(Phase.BACKWARD, self.stage - 1, micro_batch)

    def gradient(self, layer: int, name: str, *, last: bool) -> None:
        self.work("mm", self.job.backward_ns // 2, Phase.BACKWARD, layer, name)
        self.ready(name, last=last)

    def held_back(self, name: str) -> bool:
        return name in (names_of(layer)[1] for layer in self.job.held_back)

    def layers(self) -> range:
        return range(self.stage * self.job.layers, (self.stage + 1) * self.job.layers)

    def work(self, name: str, dur_ns: int, phase: Phase, layer: int = -1, tensor: str = "") -> None:
        grows = phase in (Phase.FORWARD, Phase.BACKWARD)
        self.pen.work(name, self.varied(dur_ns * (self.job.batch if grows else 1)), phase,
                      "" if layer < 0 else str(layer), tensor)  # fmt: skip

    def varied(self, dur_ns: float) -> int:
        way = 2 * self.random.random() - 1 if self.job.jitter else 0.0
        return round(dur_ns * (1 + self.job.jitter * way))

    def ready(self, name: str, *, last: bool) -> None:
        """Hand over, in turn, the buckets whose gradients are now all there."""
        if self.job.parallel is Parallel.FSDP2 or not last:
            return
        self.arrived.add(name)
        while self.buckets and self.arrived.issuperset(self.buckets[0]):
            self.reduce(self.buckets.pop(0))

    def cut(self) -> list[list[str]]:
        """A bucket is closed by the gradient that fills it."""
        ready = [name for layer in reversed(self.layers()) for name in names_of(layer)]
        late = [names_of(layer)[1] for layer in self.job.held_back]
        ready = [name for name in ready if name not in late] + late
        found: list[list[str]] = []
        room = 0
        for name in [name for name in self.job.order if name in ready] or ready:
            if room <= 0:
                found.append([])
                room = self.job.bucket_bytes
            found[-1].append(name)
            room -= size_of(self.job, name)
        return found

    def reduce(self, bucket: list[str]) -> None:
        whole = sum(size_of(self.job, name) for name in bucket)
        calls: list[int] = []
        if self.job.rounds:
            self.reducing.append(_Bucket(tuple(bucket), whole, ()))
            return
        for count in part_sizes(whole // 4, self.job.parts):
            if self.job.on_host:
                calls.append(self.reduce_in_levels(4 * count, bucket))
                continue
            pushed = self.job.exchange is ReplicaExchange.PARAMETER_SERVER
            kind = Collective.PUSH if pushed else Collective.ALL_REDUCE
            asked = SentCollective(kind, 4 * count, *self.replicas())
            if self.job.by_priority:
                sent = self.pen.call_in_turn(asked, bucket, self.first_of(bucket))
            else:
                sent = self.pen.call(asked, bucket)
            if pushed:
                sent = self.pen.behind(
                    SentCollective(Collective.PULL, 4 * count, *self.replicas()), sent
                )
            calls.append(sent)
        self.reducing.append(_Bucket(tuple(bucket), whole, tuple(calls)))

    def reduce_in_levels(self, size: int, bucket: list[str]) -> int:
        """Inside the host, across hosts, inside."""
        led = self.job.machine is MachineKind.CPU
        rank = self.rank_of(self.replica, self.stage)
        levels = Levels.of(rank, self.replicas()[1], self.job.on_host, led=led)
        first, last = (
            (Collective.REDUCE, Collective.BROADCAST)
            if led
            else (Collective.REDUCE_SCATTER, Collective.ALL_GATHER)
        )
        call = self.pen.call(SentCollective(first, size, Axis.NONE, levels.inside), bucket)
        across = []
        if levels.across:
            each = size if led else size // self.job.on_host
            asked = SentCollective(Collective.ALL_REDUCE, each, Axis.NONE, levels.across)
            across.append(self.pen.behind(asked, call))
        return self.pen.behind(SentCollective(last, size, Axis.NONE, levels.inside), call, across)

    def first_of(self, bucket: list[str]) -> int:
        """Which of the job's parameters is the first in a bucket."""
        names = [parameter.name for parameter in self.pen.drawing.facts.parameters]
        return min(names.index(name) for name in bucket)

    def give_back(self) -> None:
        """Wait for the buckets, and copy each back: one by one, or on a device all at once."""
        each = [[bucket] for bucket in self.reducing]
        phase = Phase.COMMUNICATION if self.job.rounds else Phase.BACKWARD
        for buckets in each if self.job.machine is MachineKind.CPU else [self.reducing]:
            whole = sum(bucket.size_bytes for bucket in buckets)
            if not self.job.late:
                self.pen.wait([call for b in buckets for call in b.calls], phase)
            if whole:
                dur = self.varied(whole // self.job.copied_bytes_per_ns)
                self.pen.work("copy", dur, phase, "", "")

    def update_late(self, layer: int) -> None:
        """Of what the step before left to do, what this layer's weights need."""
        done = shares(self.job.update_ns, [bucket.size_bytes for bucket in self.before])
        for bucket, share in zip(self.before, done):
            if bucket in self.left and bucket.of(layer):
                self.left.remove(bucket)
                self.pen.wait(bucket.calls, Phase.FORWARD)
                self.work("adam", share, Phase.UPDATE)

    def update_early(self) -> None:
        """Whoever waits for a bucket waits for its update, beside all other work."""
        done = shares(self.job.update_ns, [bucket.size_bytes for bucket in self.reducing])
        self.reducing = [
            replace(bucket, calls=(self.pen.beside("adam", share, bucket.calls),))
            for bucket, share in zip(self.reducing, done)
        ]

    def update(self) -> None:
        if self.job.late:
            return
        cut = self.job.workers if self.job.parallel is Parallel.FSDP2 else 1
        self.pen.updates_from([call for bucket in self.reducing for call in bucket.calls])
        self.work("adam", 0 if self.job.early else self.job.update_ns // cut, Phase.UPDATE)

    def exchange_weights(self, step: int, under_way: dict[tuple[int, int, Round], int]) -> None:
        """What of the rounds stands behind this step: first what came, then what is handed over."""
        asked = self.job.rounds or Rounds(1, ())
        for each in asked.rounds:
            if each.lasts and (step - each.lasts) % asked.period == each.step:
                self._take(each, under_way.pop((self.pen.rank, step - each.lasts, each), None))
        for each in asked.rounds:
            if step % asked.period != each.step:
                continue
            size = self._fragment(each)
            self.pen.passes(f"pack {each.name}", each.packs * size)
            call = self.pen.call(SentCollective(Collective.ALL_REDUCE, size, *self.replicas()))
            if each.lasts:
                under_way[self.pen.rank, step, each] = call
            else:
                self._take(each, call)

    def _take(self, each: Round, call: int | None) -> None:
        if call is not None:
            self.pen.wait([call], Phase.COMMUNICATION)
            self.pen.passes(f"take {each.name}", each.takes * self._fragment(each))

    def _fragment(self, each: Round) -> int:
        """The bytes of weights that travel."""
        assert self.job.rounds is not None
        names = [name for layer in self.layers() for name in names_of(layer)]
        sizes = [size_of(self.job, name) for name in names]
        part = fragments_of(sizes, self.job.rounds.fragments)[each.fragment]
        return each.times * sum(sizes[i] for i in part)

    def gather(self) -> None:
        """FSDP2: a layer's weights from all who hold a part; who holds all of it makes no call."""
        if self.job.parallel is Parallel.FSDP2 and self.job.workers > 1:
            size = self.job.weight_bytes + self.job.bias_bytes
            call = self.pen.call(SentCollective(Collective.ALL_GATHER, size, *self.replicas()))
            self.pen.wait([call], Phase.FORWARD)

    def scatter(self, layer: int) -> None:
        """FSDP2: a layer's gradients to those who hold a part; the update waits for them. Gloo
        runs it as an all-reduce."""
        if self.job.parallel is Parallel.FSDP2 and self.job.workers > 1:
            size = self.job.weight_bytes + self.job.bias_bytes
            gloo = self.job.machine is MachineKind.CPU
            kind = Collective.ALL_REDUCE if gloo else Collective.REDUCE_SCATTER
            asked = SentCollective(kind, size, *self.replicas())
            self.reducing.append(_Bucket((), 0, (self.pen.call(asked, names_of(layer)),)))

    def sum_activations(self) -> None:
        if self.job.tensor > 1:
            first = self.job.tensor * (self.replica + self.job.workers * self.stage)
            ranks = tuple(range(first, first + self.job.tensor))
            asked = SentCollective(Collective.ALL_REDUCE, self.activation(), Axis.TENSOR, ranks)
            self.pen.wait([self.pen.call(asked)], Phase.FORWARD)

    def send(self, phase: Phase, stage: int, micro_batch: int) -> None:
        if 0 <= stage < self.job.stages:
            self.pen.send(self.message(phase, stage, micro_batch))

    def receive(self, phase: Phase, stage: int, micro_batch: int) -> None:
        if 0 <= stage < self.job.stages:
            self.pen.wait([self.pen.receive(self.message(phase, stage, micro_batch))], phase)

    def message(self, phase: Phase, stage: int, micro_batch: int) -> Message:
        ranks = tuple(self.rank_of(self.replica, s) for s in range(self.job.stages))
        return Message(self.rank_of(self.replica, stage), ranks, self.activation(),
                       f"{phase.name.lower()} {micro_batch} of pass {self.turn}")  # fmt: skip

    def activation(self) -> int:
        return round(self.job.activation_bytes * self.job.batch)

    def replicas(self) -> tuple[Axis, tuple[int, ...]]:
        ranks = (self.rank_of(replica, self.stage) for replica in range(self.job.workers))
        return Axis.DATA, tuple(ranks)

    def rank_of(self, replica: int, stage: int) -> int:
        return self.inner + self.job.tensor * (replica + self.job.workers * stage)
