"""Training jobs as recordings show them: facts, axes, gradients, waits, several steps.

Unlike the other generators this one says what a change must know of a job, in the shapes that a
recording has: a training thread with gloo's threads beside it, or a host thread that feeds a
compute stream and NCCL's. A change made on a small job can so be held against the job generated
with that change.
"""

from dataclasses import dataclass
from enum import Enum
from math import isqrt

import numpy as np

from paceline.errors import GraphError
from paceline.graph.facts import Facts, Parameter
from paceline.graph.graph import Graph
from paceline.graph.kinds import Axis, Collective, Phase, Role
from paceline.graph.synthetic.pipeline import Pipeline, one_f_one_b
from paceline.graph.synthetic.training_lanes import Drawing, Machine, Message, Talk


class Parallel(Enum):
    """In which way the ranks share the work."""

    DDP = "ddp"
    FSDP2 = "fsdp2"  # weights, gradients and update cut along the data axis
    TENSOR_DATA = "tensor x data"
    PIPELINE_DATA = "pipeline x data"


class Exchange(Enum):
    """How replicas come by each other's gradients."""

    ALL_REDUCE = "all-reduce"
    PARAMETER_SERVER = "parameter server"


@dataclass(frozen=True)
class TrainingJob:
    """Settings of the job; durations are of one rank, one layer, one micro-batch."""

    parallel: Parallel = Parallel.DDP
    machine: Machine = Machine.CPU
    workers: int = 2  # replicas of the model
    tensor: int = 1  # ranks that share a layer
    stages: int = 1
    micro_batches: int = 1
    layers: int = 4  # of each stage
    load_ns: int = 120_000  # a step
    forward_ns: int = 240_000
    backward_ns: int = 480_000  # half of it before the bias's gradient, half before the weight's
    update_ns: int = 840_000  # of the whole model on one rank
    weight_bytes: int = 3 << 20
    bias_bytes: int = 1 << 20
    activation_bytes: int = 1 << 18
    bucket_bytes: int = 8 << 20
    copied_bytes_per_ns: int = 16  # how fast a reduced bucket is copied back
    batch: float = 1.0
    exchange: Exchange = Exchange.ALL_REDUCE
    steps: int = 1
    jitter: float = 0.0  # by how much of its duration work differs from step to step, at most
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = (self.workers, self.tensor, self.stages, self.micro_batches, self.layers)
        if min(*sizes, self.bucket_bytes, self.steps) < 1 or not 0 <= self.jitter < 1:
            raise GraphError(f"every size must be 1 or more, and the jitter below 1: {self}")
        if self.tensor > 1 and self.parallel is not Parallel.TENSOR_DATA:
            raise GraphError(f"only {Parallel.TENSOR_DATA} has a tensor degree: {self}")
        if self.stages > 1 and self.parallel is not Parallel.PIPELINE_DATA:
            raise GraphError(f"only {Parallel.PIPELINE_DATA} has stages: {self}")

    @property
    def world(self) -> int:
        return self.workers * self.tensor * self.stages


def training(job: TrainingJob) -> Graph:
    """The graph of all steps on all ranks."""
    drawing = Drawing(job.machine, _facts(job))
    random = np.random.default_rng(job.seed)
    for step in range(job.steps):
        for rank in range(job.world):
            _Rank(job, drawing, rank, step, random).draw()
    return drawing.builder.build()


def _facts(job: TrainingJob) -> Facts:
    names = [name for layer in range(job.layers * job.stages) for name in _names(layer)]
    return Facts(
        world_size=job.world,
        parameters=tuple(_parameter(job, name) for name in names),
        update_shards=job.workers if job.parallel is Parallel.FSDP2 else 1,
    )


def _names(layer: int) -> tuple[str, str]:
    """Of a layer's parameters, in the order in which their gradients are ready."""
    return f"{layer}.bias", f"{layer}.weight"


def _size(job: TrainingJob, name: str) -> int:
    return job.bias_bytes if name.endswith("bias") else job.weight_bytes


def _parameter(job: TrainingJob, name: str) -> Parameter:
    layer, _, kind = name.partition(".")
    role = Role.LINEAR_WEIGHT if kind == "weight" else Role.OTHER
    return Parameter(name, _size(job, name), _shape(job, name), f"layer {layer}", role)


def _shape(job: TrainingJob, name: str) -> tuple[int, ...]:
    """A weight has twice as many columns as rows, or as near to it as its bytes allow."""
    count = _size(job, name) // 4
    if name.endswith("bias"):
        return (count,)
    rows = next(n for n in range(max(1, isqrt(count // 2)), 0, -1) if count % n == 0)
    return (rows, count // rows)


class _Rank:
    """One rank's step, told in order to the drawing of its machine."""

    def __init__(
        self, job: TrainingJob, drawing: Drawing, rank: int, step: int, random: np.random.Generator
    ) -> None:
        self.job, self.random = job, random
        self.inner, rest = rank % job.tensor, rank // job.tensor
        self.replica, self.stage = rest % job.workers, rest // job.workers
        self.pen = drawing.begin(rank, step)
        self.bucket: list[str] = []  # gradients that are ready, but not handed over
        self.reducing: list[tuple[int, int]] = []  # handed over: bytes, and what gives them back

    def draw(self) -> None:
        job = self.job
        self.pen.load(self.varied(job.load_ns * job.batch))
        schedule = one_f_one_b(self.stage, Pipeline(job.stages, job.micro_batches))
        for phase, micro_batch in schedule:
            if phase is Phase.FORWARD:
                self.forward(micro_batch)
            else:
                self.backward(micro_batch)
        self.give_back()
        self.update()
        self.pen.end()

    def forward(self, micro_batch: int) -> None:
        self.receive(Phase.FORWARD, self.stage - 1, micro_batch)
        for layer in self.layers():
            self.gather()
            self.work("addmm", self.job.forward_ns, Phase.FORWARD, layer)
            self.sum_activations()
        self.send(Phase.FORWARD, self.stage + 1, micro_batch)

    def backward(self, micro_batch: int) -> None:
        self.receive(Phase.BACKWARD, self.stage + 1, micro_batch)
        last = micro_batch == self.job.micro_batches - 1
        for layer in reversed(self.layers()):
            self.gather()
            for name in _names(layer):
                self.work("mm", self.job.backward_ns // 2, Phase.BACKWARD, layer, name)
                self.ready(name, last=last)
            self.sum_activations()
            self.scatter(layer)
        self.send(Phase.BACKWARD, self.stage - 1, micro_batch)

    def layers(self) -> range:
        return range(self.stage * self.job.layers, (self.stage + 1) * self.job.layers)

    def work(self, name: str, dur_ns: int, phase: Phase, layer: int = -1, tensor: str = "") -> None:
        grows = phase in (Phase.FORWARD, Phase.BACKWARD)
        self.pen.work(name, self.varied(dur_ns * (self.job.batch if grows else 1)), phase,
                      "" if layer < 0 else f"layer {layer}", tensor)  # fmt: skip

    def varied(self, dur_ns: float) -> int:
        way = 2 * self.random.random() - 1 if self.job.jitter else 0.0
        return round(dur_ns * (1 + self.job.jitter * way))

    def ready(self, name: str, *, last: bool) -> None:
        """Hand over a bucket with the gradient that fills it, or the last there is."""
        if self.job.parallel is Parallel.FSDP2 or not last:
            return
        self.bucket.append(name)
        full = sum(_size(self.job, n) for n in self.bucket) >= self.job.bucket_bytes
        if full or name == _names(self.layers()[0])[-1]:
            self.reduce()

    def reduce(self) -> None:
        size = sum(_size(self.job, name) for name in self.bucket)
        pushed = self.job.exchange is Exchange.PARAMETER_SERVER
        talk = Talk(Collective.PUSH if pushed else Collective.ALL_REDUCE, size, *self.replicas())
        sent = self.pen.call(talk, self.bucket)
        if pushed:
            sent = self.pen.behind(Talk(Collective.PULL, size, *self.replicas()), sent)
        self.reducing.append((size, sent))
        self.bucket = []

    def give_back(self) -> None:
        """Wait for the buckets, and copy each back: one by one, or on a device all at once."""
        each = [[bucket] for bucket in self.reducing]
        for buckets in each if self.job.machine is Machine.CPU else [self.reducing]:
            whole = sum(size for size, _ in buckets)
            self.pen.wait([sent for _, sent in buckets], Phase.BACKWARD)
            if whole:
                dur = self.varied(whole // self.job.copied_bytes_per_ns)
                self.pen.work("copy", dur, Phase.BACKWARD, "", "")

    def update(self) -> None:
        cut = self.job.workers if self.job.parallel is Parallel.FSDP2 else 1
        self.pen.updates_from([sent for _, sent in self.reducing])
        self.work("adam", self.job.update_ns // cut, Phase.UPDATE)

    def gather(self) -> None:
        """FSDP2: a layer's weights from all who hold a part."""
        if self.job.parallel is Parallel.FSDP2:
            size = self.job.weight_bytes + self.job.bias_bytes
            call = self.pen.call(Talk(Collective.ALL_GATHER, size, *self.replicas()))
            self.pen.wait([call], Phase.FORWARD)

    def scatter(self, layer: int) -> None:
        """FSDP2: a layer's gradients to those who hold a part; the update waits for them. Gloo
        runs it as an all-reduce."""
        if self.job.parallel is Parallel.FSDP2:
            size = self.job.weight_bytes + self.job.bias_bytes
            gloo = self.job.machine is Machine.CPU
            kind = Collective.ALL_REDUCE if gloo else Collective.REDUCE_SCATTER
            talk = Talk(kind, size, *self.replicas())
            self.reducing.append((0, self.pen.call(talk, _names(layer))))

    def sum_activations(self) -> None:
        if self.job.tensor > 1:
            first = self.job.tensor * (self.replica + self.job.workers * self.stage)
            ranks = tuple(range(first, first + self.job.tensor))
            talk = Talk(Collective.ALL_REDUCE, self.activation(), Axis.TENSOR, ranks)
            self.pen.wait([self.pen.call(talk)], Phase.FORWARD)

    def send(self, phase: Phase, stage: int, micro_batch: int) -> None:
        if 0 <= stage < self.job.stages:
            self.pen.send(self.message(phase, stage, micro_batch))

    def receive(self, phase: Phase, stage: int, micro_batch: int) -> None:
        if 0 <= stage < self.job.stages:
            self.pen.wait([self.pen.receive(self.message(phase, stage, micro_batch))], phase)

    def message(self, phase: Phase, stage: int, micro_batch: int) -> Message:
        ranks = tuple(self.rank_of(self.replica, s) for s in range(self.job.stages))
        return Message(self.rank_of(self.replica, stage), ranks, self.activation(),
                       f"{phase.name.lower()} {micro_batch}")  # fmt: skip

    def activation(self) -> int:
        return round(self.job.activation_bytes * self.job.batch)

    def replicas(self) -> tuple[Axis, tuple[int, ...]]:
        ranks = (self.rank_of(replica, self.stage) for replica in range(self.job.workers))
        return Axis.DATA, tuple(ranks)

    def rank_of(self, replica: int, stage: int) -> int:
        return self.inner + self.job.tensor * (replica + self.job.workers * stage)
