"""`Facts`: what a change must know of a job beyond its ops, typed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.graph.kinds import NONE, Axis, Role
from paceline.graph.variants import Ratio, Variant
from paceline.machine.pulse import Pulse


@dataclass(frozen=True)
class Parameter:
    """A trained tensor, by the name that `Graph.ops.tensor` gives to the op that readies it."""

    name: str
    size_bytes: int  # of its whole gradient
    shape: tuple[int, ...] = ()  # unknown where empty
    layer: str = ""  # the module that owns it, as `Graph.ops.layer` names it
    role: Role = Role.OTHER


@dataclass(frozen=True)
class Optimizer:
    """What updates the parameters."""

    kind: str  # its class: SGD, Adam
    fused: bool = False  # torch's fused implementation


@dataclass(frozen=True)
class LayerMemory:
    """What a module's forward pass keeps for the backward pass, its inner modules' included."""

    name: str  # its path
    kind: str  # class
    kept_bytes: int = 0  # taken in it, and saved by it or by what follows
    output_bytes: int = 0  # of these its results that what follows saves
    own_output_bytes: int = 0  # of those, what it saves too
    input_bytes: int = 0  # of its inputs, what neither it nor what follows saves
    float_bytes: int = 0  # of what was taken in it and in no inner module, float32
    read_bytes: int = 0  # float32 that one of its own ops saved, at most


@dataclass(frozen=True)
class RankMemory:
    """What a rank holds from step to step, and what its layers keep within one, in bytes. What the
    data axis cuts is told as if it were whole."""

    rank: int
    weights: int = 0  # and buffers
    gradients: int = 0
    optimizer: int = 0
    communication: int = 0  # DDP's buckets
    other: int = 0  # the batch
    weight_shards: int = 1  # parts into which the data axis cuts weights and gradients (FSDP)
    layers: tuple[LayerMemory, ...] = ()  # in the order in which they begin
    step: int = NONE  # whose allocations are told; the recorded steps are taken to be like it
    other_ops: float = 0.0  # the largest part of a recorded step's operators that it did not run


@dataclass(frozen=True)
class RecordedGpu:
    """A GPU by what the recording itself says of it, or the device that a run was imagined for."""

    name: str  # as its driver spells it, or a preset's
    memory_bytes: int = 0
    units: int = 0  # streaming multiprocessors or compute units
    threads_per_unit: int = 0


@dataclass(frozen=True)
class Stored:
    """What it takes to bring in a batch whose samples lie in a format, as it was measured."""

    format: str
    blocked_ns: int  # waiting for storage
    work_ns: int  # reading and decoding, on a core


@dataclass(frozen=True)
class Loading:
    """How the job's batches come in."""

    workers: int = 0  # processes that prepare them; 0: the training thread itself
    prefetch: int = 0  # batches that each of them prepares ahead
    sent_ns: int = 0  # what a worker does to hand a batch over, on a core
    taken_ns: int = 0  # and the thread that takes it
    answered_ns: int = 0  # it waits for the worker, which is busy with its next batch
    storage_bytes_per_s: float = 0.0  # to all who read together; 0: no limit is known
    formats: tuple[Stored, ...] = ()


@dataclass(frozen=True)
class BlockHost:
    """What FSDP2 spends of the training thread beside its calls, where it was measured."""

    gather_ns: float  # of a block's weights
    gathered_weight_ns: float  # more for each of them
    reduce_ns: float  # of a block's gradients
    reduced_weight_ns: float


@dataclass(frozen=True)
class Facts:
    """What is known of the job; zero and empty where it is not."""

    world_size: int = 0  # processes of the whole job, of which the graph may hold a part
    parameters: tuple[Parameter, ...] = ()
    buckets: tuple[tuple[str, ...], ...] = ()  # parameters reduced together, in launch order
    update_shards: int = 1  # into how many parts the data axis cuts the update (ZeRO, FSDP)
    plain_step_ns: int = 0  # a step without instruments, the median
    plain_run_ns: int = 0  # how long the training thread ran in it, waits of all kinds left out
    pulse: Pulse | None = None  # of the machine, the median while it was recorded
    samples: float = 1.0  # in a worker's step, as a multiple of the recorded step's
    cores: float = 0.0  # of the host that was recorded, by what they do together
    steps_overlap: bool = False
    """Steps run into one another, as in a pipeline without flush: the graph stands for itself, and
    a step is the time between updates."""
    period: int = 1  # steps after which the job repeats itself; ranks may talk in the last alone
    siblings: Mapping[Axis, tuple[int, ...]] = field(default_factory=dict)
    """By axis: shifts of a group's ranks to those of groups that communicate at the same time."""

    optimizer: Optimizer | None = None
    ratios: tuple[Ratio, ...] = ()  # of operators in other variants, where they were measured
    gpus: tuple[RecordedGpu, ...] = ()  # of the recorded ranks, each kind once
    carried_to: str = ""  # the preset of the device that kernels were carried to
    variants: tuple[Variant, ...] = ()  # in which a device's kernels run, beyond what works tell
    memory: tuple[RankMemory, ...] = ()  # by rank; empty where it was not recorded
    loading: Loading = Loading()
    copies_of_one: bool = False  # one rank was recorded, and all replicas are taken to be like it
    slowed_beside: float = 0.0
    """How many times as long a device's kernels take beside communication, where `dur_ns` is what
    they take alone; 0: durations hold what it costs."""
    block_host: BlockHost | None = None

    def gradient_bytes(self) -> dict[str, int]:
        return {parameter.name: parameter.size_bytes for parameter in self.parameters}
