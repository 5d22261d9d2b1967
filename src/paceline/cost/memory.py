"""Peak memory of a device: of a described job, or of a recorded one with another batch or shards.

Bytes of a parameter in mixed precision with Adam: 2 weight, 2 gradient, 12 optimizer (a float32
copy and two moments). ZeRO shares out the optimizer (stage 1), gradients (2) and weights (3) among
the data ranks (Rajbhandari et al. 2020). A layer keeps tokens x hidden x (10 + 24 / t) bytes and
5 a s b s / t of attention scores for its backward pass (Korthikanti et al. 2022, without sequence
parallelism); recomputation keeps its input alone.
"""

from dataclasses import dataclass, replace

from paceline.errors import GraphError
from paceline.graph.kinds import DType
from paceline.graph.transformer.description import Described, Recompute, Schedule
from paceline.graph.transformer.finish import stage_params


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


def described_peak(job: Described, stage: int = 0) -> Peak:
    """Peak of a rank of one pipeline stage; stage 0 keeps the most activations under 1F1B."""
    params = stage_params(job, stage)
    wide = job.model.dtype is DType.FLOAT32
    weight, moments = (4, 8) if wide else (2, 12)
    whole = Peak(params * weight, params * weight, params * moments, 0)
    kept = layer_activations(job) * job.layers_a_chunk * in_flight(job, stage)
    sharded = zero_sharded(whole, job.training.zero_stage, job.degrees.data)
    return replace(sharded, activations=kept + _working_set(job))


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


def with_batch(peak: Peak, factor: float) -> Peak:
    """A recorded peak with another batch: activations grow with it, the rest does not."""
    if factor <= 0:
        raise GraphError(f"a batch {factor} times as large does not exist; give a factor above 0")
    return replace(peak, activations=round(peak.activations * factor))


def with_recomputation(peak: Peak, segments: int, layers: int, input_share: float) -> Peak:
    """A recorded peak when only the input of each of `segments` runs of layers is kept.

    `input_share` is how much of a layer's activations its input is. Kept are the inputs, and the
    one segment that is open while it is recomputed (Chen et al. 2016).
    """
    if not 1 <= segments <= layers or not 0 < input_share <= 1:
        raise GraphError(
            f"{segments} segments of {layers} layers with an input share of {input_share}: give 1 "
            f"to {layers} segments, and a share above 0 and up to 1"
        )
    left = min(1.0, input_share * segments / layers + 1 / segments)
    return replace(peak, activations=round(peak.activations * left))


def in_flight(job: Described, stage: int) -> int:
    """Forward passes whose activations a stage keeps at once, in chunks."""
    stages, count, chunks = job.degrees.pipeline, job.microbatches, job.training.chunks
    most = {
        Schedule.GPIPE: count,
        Schedule.ONE_F_ONE_B: stages - stage,
        Schedule.INTERLEAVED: (stages - 1 - stage) * 2 + (chunks - 1) * stages + 1,
        Schedule.ZERO_BUBBLE: stages,
    }[job.training.schedule]
    return min(most, count * chunks)


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


def _working_set(job: Described) -> int:
    """What full recomputation rebuilds of one layer while its backward pass runs."""
    if job.training.recompute is not Recompute.FULL:
        return 0
    kept = replace(job, training=replace(job.training, recompute=Recompute.NONE))
    return layer_activations(kept)


def _share(size_bytes: int, ranks: int) -> int:
    return -(-size_bytes // ranks)
