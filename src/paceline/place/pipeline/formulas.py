"""The published formulas: memory and time of a step, by schedule.

Time: Huang et al. 2019 (GPipe), Narayanan et al. 2021 (1F1B, interleaved), Qi et al. 2024 (ZB-H1),
Narayanan et al. 2021 "Memory-Efficient Pipeline-Parallel DNN Training" (2BW, sections 3 to 5).
Memory, of the fullest stage: versions |W| / d + what it keeps of the micro-batches in flight.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.graph import Basis
from paceline.place.pipeline.packing import WHOLE, Borders
from paceline.place.pipeline.passing import down_bytes, up_bytes
from paceline.place.pipeline.profile import LayerCost
from paceline.runtime.stages import PipelineSchedule, Shape, in_flight, versions_kept


@dataclass(frozen=True)
class PipelinePlan:
    """How a pipeline is run on `width` x `shape.stages` devices."""

    schedule: PipelineSchedule
    shape: Shape
    microbatch: int  # samples
    width: int = 1
    recompute: bool = False

    @property
    def devices(self) -> int:
        return self.width * self.shape.stages

    @property
    def global_batch(self) -> int:
        return self.microbatch * self.shape.microbatches * self.width


@dataclass(frozen=True)
class Wires:
    """Bytes a second between stages and between replicas, and what a message costs beside.

    `copy_ns` is processor time that a message takes at either end, where the transport has to copy
    (gloo over sockets); it competes with computation for cores. `asked`: a message moves once its
    receiver has asked for it, which it does one ahead, by a word that takes its turn on the link,
    and a stage gives one only when the one before has gone (`runtime.stages.torch_links`);
    `send_ns_per_byte` is then what its own thread spends on it. Of borders that pass a share of the
    activations alone, `borders` says how long packing and restoring them take.
    """

    stage_bytes_per_s: float
    replica_bytes_per_s: float
    latency_ns: int = 0
    copy_ns: int = 0
    asked: bool = False
    send_ns_per_byte: float = 0.0
    shares: tuple[float, ...] = ()  # of the activations that pass each border; empty: all of them
    borders: Borders = WHOLE
    basis: Basis = Basis.DATASHEET  # what these figures rest on

    def carried(self, border: int, size_bytes: int, *, down: bool) -> int:
        """Bytes over the border behind a stage, of what would take so many whole."""
        share = self.shares[border] if self.shares else 1.0
        return (down_bytes if down else up_bytes)(size_bytes, share)

    def message_ns(self, size_bytes: int) -> int:
        return self.latency_ns + round(1e9 * size_bytes / self.stage_bytes_per_s)

    def all_reduce_ns(self, size_bytes: int, width: int) -> int:
        """A ring's 2 (w - 1) / w times the bytes."""
        if width == 1:
            return 0
        return round(1e9 * 2 * (width - 1) / width * size_bytes / self.replica_bytes_per_s)


def memory_bytes(plan: PipelinePlan, stages: Sequence[LayerCost]) -> list[int]:
    """Weights and activations of each stage at its fullest."""
    return [
        versions_kept(plan.schedule) * cost.weight_bytes + activation_bytes(plan, stage, cost)
        for stage, cost in enumerate(stages)
    ]


def activation_bytes(plan: PipelinePlan, stage: int, cost: LayerCost) -> int:
    """Recomputation keeps inputs, and everything of the one micro-batch that is in work."""
    flight = in_flight(plan.schedule, plan.shape, stage)
    if plan.recompute:
        return flight * cost.input_bytes + cost.kept_bytes // plan.shape.chunks
    return flight * cost.kept_bytes // plan.shape.chunks


def step_ns(plan: PipelinePlan, stages: Sequence[LayerCost], wires: Wires) -> int:
    """Time of one batch, its update included."""
    busy = [pass_ns(plan, cost) for cost in stages]
    talk = [
        wires.message_ns(cost.input_bytes) * 2 if stage else 0 for stage, cost in enumerate(stages)
    ]
    slowest = max(range(len(stages)), key=lambda i: busy[i] + talk[i])
    steady = plan.shape.microbatches * (busy[slowest] + talk[slowest])
    reduce = max(wires.all_reduce_ns(cost.weight_bytes, plan.width) for cost in stages)
    update = max(cost.update_ns for cost in stages)
    if plan.schedule is PipelineSchedule.TWO_BUFFERED:
        return max(steady, reduce) + update
    fill = sum(busy) + sum(talk) - busy[slowest] - talk[slowest]
    return steady + round(fill * _bubble(plan, stages[slowest])) + reduce + update


def pass_ns(plan: PipelinePlan, cost: LayerCost) -> int:
    """Forward and backward of a micro-batch; recomputation runs the forward pass twice."""
    return cost.compute_ns + (cost.forward_ns if plan.recompute else 0)


def _bubble(plan: PipelinePlan, cost: LayerCost) -> float:
    """Which part of a full fill and drain is left idle."""
    if plan.schedule is PipelineSchedule.INTERLEAVED:
        return 1 / plan.shape.chunks
    if plan.schedule is PipelineSchedule.ZERO_BUBBLE:
        weight = cost.backward_ns / 2  # F + B - W of F + B + W
        return 1 - 2 * weight / pass_ns(plan, cost)
    return 1.0
