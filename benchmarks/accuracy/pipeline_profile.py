"""What the profiles of benchmarks/accuracy/pipeline.py say of the stages, for the planner.

A profile comes from `jobs/stage_profile.py`: one a round, of which the median counts, number by
number.
"""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from paceline.place.pipeline import LayerCost, Plan, Wires, price_on_cores
from paceline.runtime.stages import PipelineSchedule, Shape, versions_kept

CORES = float(os.cpu_count() or 1)
LEAST_SHARE = 0.5
"""Of its cores, that a machine is believed to give the stages at the least."""

TRIES = 8
"""Halvings of what is not known of the cores; after eight it is a five-hundredth."""

AT_WORK = {1: PipelineSchedule.FLUSH, 2: PipelineSchedule.TWO_BUFFERED}
"""Which pipeline was profiled, by versions of the weights."""


@dataclass(frozen=True)
class AtWork:
    """Stages and messages of a pipeline on one machine, and how it shares its cores."""

    stages: tuple[LayerCost, ...]
    wires: Wires
    cores: float
    rested: float
    late_ns: int


def at_work(profiles: Sequence[dict[str, Any]], schedule: PipelineSchedule, rows: int) -> AtWork:
    """What holds for pipelines that keep as many versions of the weights as this one does."""
    versions = versions_kept(schedule)
    timed = [profile["at_work"][str(versions)] for profile in profiles]
    known = AtWork(
        _stages([one["stages"] for one in timed]),
        _wires([profile["message"] for profile in profiles], _middle(timed, "end_ns")),
        CORES,
        _middle(profiles, "rested"),
        round(_middle(profiles, "late_ns")),
    )
    shape = Shape(len(known.stages), timed[0]["microbatches"])
    return _sharing(known, Plan(AT_WORK[versions], shape, rows), _middle(timed, "step_ns"))


def step_ns(plan: Plan, known: AtWork) -> int:
    """Of a pipeline on the machine that was profiled."""
    return price_on_cores(
        plan, known.stages, known.wires, known.cores, rested=known.rested
    ).replayed_step_ns


def _sharing(known: AtWork, plan: Plan, measured_ns: float) -> AtWork:
    """With as many cores as give the profiled pipeline the step that it had: the system moves
    processes between cores late, the replay shares them without loss."""
    least, most = LEAST_SHARE * known.cores, known.cores
    for _ in range(TRIES):
        middle = (least + most) / 2
        if step_ns(plan, replace(known, cores=middle)) > measured_ns:
            least = middle
        else:
            most = middle
    return replace(known, cores=most)


def _middle(rounds: Sequence[dict[str, Any]], key: str) -> float:
    return statistics.median(one[key] for one in rounds)


def _stages(rounds: Sequence[list[dict[str, Any]]]) -> tuple[LayerCost, ...]:
    """The median round's, stage by stage."""
    found = []
    for same in zip(*rounds):
        numbers = [f.name for f in fields(LayerCost) if f.name != "name"]
        middle = {n: round(_middle(same, n)) for n in numbers}
        found.append(replace(LayerCost(same[0]["name"], 0, 0), **middle))
    return tuple(found)


def _wires(messages: Sequence[dict[str, Any]], end_ns: float) -> Wires:
    """A message alone, and what either end of it costs at work."""
    wall, cpu = (_middle(messages, key) for key in ("wall_ns", "cpu_ns"))
    rest = max(0.0, wall - 2 * cpu)
    return Wires(
        float("inf"), float("inf"), latency_ns=round(rest), copy_ns=round(max(cpu, end_ns))
    )
