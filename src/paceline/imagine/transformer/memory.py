"""What a described job holds on a device: weights, gradients, optimizer state, activations.

Bytes of a parameter in mixed precision with Adam: 2 weight, 2 gradient, 12 optimizer (a float32
copy and two moments). ZeRO shares out the optimizer (stage 1), gradients (2) and weights (3) among
the data ranks (Rajbhandari et al. 2020). A layer keeps tokens x hidden x (10 + 24 / t) bytes and
5 a s b s / t of attention scores for its backward pass (Korthikanti et al. 2022, without sequence
parallelism); recomputation keeps its input alone.
"""

from dataclasses import dataclass, replace

from paceline.errors import GraphError
from paceline.graph.kinds import DType, MemoryCategory
from paceline.graph.schedules import Schedule, TaskKind
from paceline.imagine.transformer.description import Described, Recompute
from paceline.imagine.transformer.finish import stage_params

Event = tuple[int, int, MemoryCategory, bool]
"""Row of a template, bytes (negative: freed), whose they are, at the row's end or its start."""


@dataclass(frozen=True)
class Peak:
    """Bytes on one device at the moment of most use, by what they are for."""

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations


def stage_states(job: Described, stage: int) -> Peak:
    """What a rank of a stage holds throughout the step."""
    params = stage_params(job, stage)
    weight, moments = (4, 8) if job.model.dtype is DType.FLOAT32 else (2, 12)
    whole = Peak(params * weight, params * weight, params * moments, 0)
    return zero_sharded(whole, job.training.zero_stage, job.degrees.data)


def layer_events(job: Described, work: TaskKind, first: int, last: int) -> list[Event]:
    """What one layer's pass takes and gives back; `first` and `last` are its kernels' rows.

    The forward pass keeps activations until the pass that computes the weights' gradients has
    ended; a recomputed layer takes its working set while its backward pass runs.
    """
    events: list[Event] = []
    kept, rebuilt = layer_activations(job), working_set(job)
    splits = job.training.schedule is Schedule.ZERO_BUBBLE
    if work is TaskKind.FORWARD:
        events.append((first, kept, MemoryCategory.ACTIVATIONS, False))
    if work is TaskKind.BACKWARD and rebuilt:
        events.append((first, rebuilt, MemoryCategory.TEMPORARY, False))
        events.append((last, -rebuilt, MemoryCategory.TEMPORARY, True))
    if work is (TaskKind.WEIGHT if splits else TaskKind.BACKWARD):
        events.append((last, -kept, MemoryCategory.ACTIVATIONS, True))
    return events


def zero_sharded(peak: Peak, stage: int, data: int) -> Peak:
    """What is left on a device when ZeRO shares out over `data` ranks."""
    if data < 1 or not 0 <= stage <= 3:
        raise GraphError(f"ZeRO stage {stage} over {data} ranks: give 0 to 3, and 1 rank or more")
    return replace(
        peak,
        optimizer=_share(peak.optimizer, data if stage >= 1 else 1),
        gradients=_share(peak.gradients, data if stage >= 2 else 1),
        weights=_share(peak.weights, data if stage >= 3 else 1),
    )


def layer_activations(job: Described) -> int:
    """Bytes that one layer keeps of one micro-batch."""
    m, t = job.model, job.degrees.tensor
    half = 2 if m.dtype in (DType.FLOAT32, DType.FLOAT64) else 1
    tokens = job.training.micro_batch * m.seq // job.degrees.sequence
    if job.training.recompute is Recompute.FULL:
        return 2 * tokens * m.hidden * half
    dense = tokens * m.hidden * (10 + 24 / t)
    spared = m.fused_attention or job.training.recompute is Recompute.SELECTIVE
    scores = 0 if spared else 5 * m.heads * m.seq * tokens / t
    return round((dense + scores) * half)


def working_set(job: Described) -> int:
    """What full recomputation rebuilds of one layer while its backward pass runs."""
    if job.training.recompute is not Recompute.FULL:
        return 0
    kept = replace(job, training=replace(job.training, recompute=Recompute.NONE))
    return layer_activations(kept)


def _share(size_bytes: int, ranks: int) -> int:
    return -(-size_bytes // ranks)
