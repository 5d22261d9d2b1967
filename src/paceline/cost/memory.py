"""Peak memory of a device: of a described job, or of a recorded one with another batch or shards.

The formulas of what a layer and a parameter take stand in `paceline.imagine.transformer.memory`;
the graph of a described job has them as events, whose replay gives the same peak.
"""

from dataclasses import replace

from paceline.errors import GraphError
from paceline.graph.schedules import in_flight
from paceline.imagine.transformer.description import Described
from paceline.imagine.transformer.memory import (
    Peak,
    layer_activations,
    stage_states,
    working_set,
    zero_sharded,
)


def described_peak(job: Described, stage: int = 0) -> Peak:
    """Peak of a rank of one pipeline stage; stage 0 keeps the most activations under 1F1B."""
    t = job.training
    count = in_flight(t.schedule, stage, job.degrees.pipeline, job.microbatches, t.chunks)
    kept = layer_activations(job) * job.layers_a_chunk * count
    return replace(stage_states(job, stage), activations=kept + working_set(job))


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


__all__ = [
    "Peak",
    "described_peak",
    "layer_activations",
    "with_batch",
    "with_recomputation",
    "zero_sharded",
]
