"""Which rank does what: ranks, lanes, groups of a described job, folded to one rank a stage.

Ranks count tensor fastest, then sequence, then data, then pipeline, as Megatron-LM does. All ranks
of a stage do the same work, so one stands for all of them; its groups hold the true ranks.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from paceline.graph.graph import Device, Group, Lanes
from paceline.graph.kinds import Axis, DeviceKind, Discipline, LaneKind
from paceline.imagine.transformer.description import Described


class Lane(IntEnum):
    """Lanes of each stage's rank. Send and receive lanes run beside the compute stream."""

    HOST = 0
    STREAM = 1
    SEND_FORWARD = 2
    RECV_FORWARD = 3
    SEND_BACKWARD = 4
    RECV_BACKWARD = 5
    DATA = 6


_KINDS = (LaneKind.THREAD, *[LaneKind.STREAM] * 6)


@dataclass(frozen=True)
class Layout:
    """Numbers of lanes and groups for one job."""

    job: Described

    @property
    def stages(self) -> int:
        return self.job.degrees.pipeline

    @property
    def stage_ranks(self) -> int:
        return self.job.degrees.world // self.stages

    def rank(self, stage: int) -> int:
        """The rank that stands for a stage: its first."""
        return stage * self.stage_ranks

    def lane(self, stage: int, lane: Lane) -> int:
        return stage * len(Lane) + lane

    def lanes(self) -> Lanes:
        stages = np.arange(self.stages, dtype=np.int32)
        return Lanes(
            np.repeat(stages * np.int32(self.stage_ranks), len(Lane)),
            np.repeat(stages, len(Lane)),
            np.tile(np.array(_KINDS, np.uint8), self.stages),
            np.full(self.stages * len(Lane), Discipline.RECORDED, np.uint8),
            tuple(lane.name.lower().replace("_", " ") for lane in Lane) * self.stages,
        )

    def devices(self) -> tuple[Device, ...]:
        return tuple(
            Device(f"rank {self.rank(s)}", host=s, kind=DeviceKind.GPU) for s in range(self.stages)
        )

    def group(self, stage: int, axis: Axis) -> int:
        """Row of the group that a stage's rank belongs to along an axis."""
        return stage * _GROUPS + _AXES.index(axis)

    def pair(self, source: int, target: int) -> int:
        """Row of the group of two neighbouring stages, sender first."""
        first = self.stages * _GROUPS
        return first + (source if target == (source + 1) % self.stages else self.stages + target)

    @property
    def ends(self) -> int:
        """Row of the group of the first and last stage, which share the embedding."""
        return self.stages * (_GROUPS + 2)

    def groups(self) -> tuple[Group, ...]:
        found = []
        for stage in range(self.stages):
            found += [
                Group(f"{axis.value} {stage}", self._members(stage, axis), axis) for axis in _AXES
            ]
        ring = [(s, (s + 1) % self.stages) for s in range(self.stages)]
        for a, b in ring + [(b, a) for a, b in ring]:
            found.append(Group(f"stage {a} to {b}", (self.rank(a), self.rank(b)), Axis.PIPELINE))
        ends = (self.rank(0), self.rank(self.stages - 1))
        return (*found, Group("embedding", ends if self.stages > 1 else ends[:1], Axis.EMBEDDING))

    def siblings(self) -> dict[Axis, tuple[int, ...]]:
        """By axis: by how much to shift a group's ranks to get those that communicate with it."""
        d = self.job.degrees
        inner = d.tensor * d.sequence
        return {
            Axis.TENSOR: tuple(range(0, self.stage_ranks, d.tensor)),
            Axis.SEQUENCE: tuple(range(d.tensor)),
            Axis.EXPERT: tuple(range(inner)),
            Axis.DATA: tuple(range(d.tensor)),
            Axis.PIPELINE: tuple(range(self.stage_ranks)),
            Axis.EMBEDDING: tuple(range(self.stage_ranks)),
        }

    def _members(self, stage: int, axis: Axis) -> tuple[int, ...]:
        d = self.job.degrees
        stride, count = {
            Axis.TENSOR: (1, d.tensor),
            Axis.SEQUENCE: (d.tensor, d.sequence),
            Axis.EXPERT: (d.tensor * d.sequence, d.expert),
            Axis.DATA: (d.tensor, d.sequence * d.data),  # sequence ranks hold the same weights
        }[axis]
        return tuple(self.rank(stage) + stride * i for i in range(count))


_AXES = (Axis.TENSOR, Axis.SEQUENCE, Axis.EXPERT, Axis.DATA)
"""The axes of which every stage has a group, in the order of their rows."""
_GROUPS = len(_AXES)
