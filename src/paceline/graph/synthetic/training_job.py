"""`TrainingJob`: the settings of a synthetic training job, and the facts that its graph tells."""

from dataclasses import dataclass
from enum import Enum
from math import isqrt

from paceline.errors import GraphError
from paceline.graph.facts import Facts, LayerMemory, Optimizer, Parameter, RankMemory
from paceline.graph.kinds import Role
from paceline.graph.rounds import Rounds
from paceline.graph.synthetic.training_lanes import MachineKind


class Parallel(Enum):
    """In which way the ranks share the work."""

    DDP = "ddp"
    FSDP2 = "fsdp2"  # weights, gradients and update cut along the data axis
    TENSOR_DATA = "tensor x data"
    PIPELINE_DATA = "pipeline x data"


class ReplicaExchange(Enum):
    """How replicas come by each other's gradients."""

    ALL_REDUCE = "all-reduce"
    PARAMETER_SERVER = "parameter server"


@dataclass(frozen=True)
class TrainingJob:
    """Settings of the job; durations are of one rank, one layer, one micro-batch."""

    parallel: Parallel = Parallel.DDP
    machine: MachineKind = MachineKind.CPU
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
    order: tuple[str, ...] = ()  # of gradients in buckets; as they are ready where empty
    copied_bytes_per_ns: int = 16  # how fast a reduced bucket is copied back
    batch: float = 1.0
    exchange: ReplicaExchange = ReplicaExchange.ALL_REDUCE
    rounds: Rounds | None = None  # weights exchanged now and then, in place of gradients
    parts: int = 1  # collectives of each bucket
    passes: int = 1  # forward and backward, to one exchange and update
    on_host: int = 0  # replicas that reduce among themselves first; 0: all at once
    late: bool = False  # a bucket is waited for, and its weights updated, where they are used next
    early: bool = False  # a bucket's weights are updated once it is there
    held_back: tuple[int, ...] = ()  # layers whose weights' gradients are made last, in this order
    by_priority: bool = False  # one exchange at a time, first what the model defines first
    gathers_again: bool = True  # FSDP2's weights, for the backward pass
    steps: int = 1
    jitter: float = 0.0  # by how much of its duration work differs from step to step, at most
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = (self.workers, self.tensor, self.stages, self.micro_batches, self.layers)
        if min(*sizes, self.bucket_bytes, self.parts, self.steps) < 1 or not 0 <= self.jitter < 1:
            raise GraphError(f"every size must be 1 or more, and the jitter below 1: {self}")
        if self.tensor > 1 and self.parallel is not Parallel.TENSOR_DATA:
            raise GraphError(f"only {Parallel.TENSOR_DATA} has a tensor degree: {self}")
        if self.stages > 1 and self.parallel is not Parallel.PIPELINE_DATA:
            raise GraphError(f"only {Parallel.PIPELINE_DATA} has stages: {self}")

    @property
    def world(self) -> int:
        return self.workers * self.tensor * self.stages


def facts_of(job: TrainingJob) -> Facts:
    names = [name for layer in range(job.layers * job.stages) for name in names_of(layer)]
    return Facts(
        world_size=job.world,
        parameters=tuple(_parameter(job, name) for name in names),
        update_shards=job.workers if job.parallel is Parallel.FSDP2 else 1,
        period=job.rounds.period if job.rounds else 1,
        memory=tuple(_held(job, rank) for rank in range(job.world)),
        optimizer=Optimizer("Adam"),
    )


def _held(job: TrainingJob, rank: int) -> RankMemory:
    """Weights, gradients and Adam's moments; every layer keeps its result."""
    kept = round(job.activation_bytes * job.batch)
    whole = job.layers * (job.weight_bytes + job.bias_bytes)
    shards = job.workers if job.parallel is Parallel.FSDP2 else 1
    first = rank // (job.tensor * job.workers) * job.layers
    layers = tuple(
        LayerMemory(str(layer), "Linear", kept_bytes=kept, output_bytes=kept,
                    float_bytes=kept)
        for layer in range(first, first + job.layers)
    )  # fmt: skip
    return RankMemory(rank, whole, whole, 2 * whole, weight_shards=shards, layers=layers)


def names_of(layer: int) -> tuple[str, str]:
    """Of a layer's parameters, in the order in which their gradients are ready."""
    return f"{layer}.bias", f"{layer}.weight"


def size_of(job: TrainingJob, name: str) -> int:
    return job.bias_bytes if name.endswith("bias") else job.weight_bytes


def _parameter(job: TrainingJob, name: str) -> Parameter:
    layer, _, kind = name.partition(".")
    role = Role.LINEAR_WEIGHT if kind == "weight" else Role.OTHER
    return Parameter(name, size_of(job, name), _shape(job, name), layer, role)


def _shape(job: TrainingJob, name: str) -> tuple[int, ...]:
    """A weight has twice as many columns as rows, or as near to it as its bytes allow."""
    count = size_of(job, name) // 4
    if name.endswith("bias"):
        return (count,)
    rows = next(n for n in range(max(1, isqrt(count // 2)), 0, -1) if count % n == 0)
    return (rows, count // rows)
