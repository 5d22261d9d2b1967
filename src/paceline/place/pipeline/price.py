"""A plan's price twice: by the published formula, and by replaying its graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.graph import LaneKind, Phase
from paceline.place.pipeline.draw import draw
from paceline.place.pipeline.formulas import Plan, Wires, memory_bytes, step_ns
from paceline.place.pipeline.profile import LayerCost
from paceline.replay import Timeline, replay
from paceline.replay.cores import Cores, replay_on_cores

BATCHES = 4
"""Replayed: 2BW never flushes, so its step is the time between updates once the pipe is full."""


@dataclass(frozen=True)
class Priced:
    """What a plan costs. Memory is that of the fullest device."""

    plan: Plan
    formula_step_ns: int
    replayed_step_ns: int
    formula_memory_bytes: int
    replayed_memory_bytes: int

    @property
    def formula_per_s(self) -> float:
        """Samples a second."""
        return self.plan.global_batch * 1e9 / self.formula_step_ns

    @property
    def replayed_per_s(self) -> float:
        return self.plan.global_batch * 1e9 / self.replayed_step_ns


def price(plan: Plan, stages: Sequence[LayerCost], wires: Wires) -> Priced:
    """Both prices of a plan whose stages have these costs."""
    timeline = replay(draw(plan, stages, wires, BATCHES))
    return _priced(plan, stages, wires, timeline)


def price_on_cores(
    plan: Plan, stages: Sequence[LayerCost], wires: Wires, cores: float, batches: int = BATCHES
) -> Priced:
    """The same where all stages are processes that share the cores of one machine."""
    graph = draw(plan, stages, wires, batches, lane=LaneKind.THREAD)
    timeline = replay_on_cores(graph, Cores.one_machine(len(stages), cores))
    return _priced(plan, stages, wires, timeline)


def steady_step_ns(timeline: Timeline) -> int:
    """Time between updates from the second batch to the last but one, of stage 0.

    The last batch is left out: without flush it has no forwards of a next batch beside it.
    """
    ops = timeline.graph.ops
    updates = (ops.phase == Phase.UPDATE) & (ops.rank == 0)
    ends = timeline.end_ns[updates][np.argsort(ops.step[updates])]
    return round(float(ends[-2] - ends[0]) / (len(ends) - 2))


def _priced(plan: Plan, stages: Sequence[LayerCost], wires: Wires, timeline: Timeline) -> Priced:
    return Priced(
        plan,
        step_ns(plan, stages, wires),
        steady_step_ns(timeline),
        max(memory_bytes(plan, stages)),
        max(curve.peak_bytes for curve in timeline.memory),
    )
