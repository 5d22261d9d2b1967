"""What a profile of benchmarks/accuracy/pipeline.py says of the stages, for the planner.

It comes from `jobs/stage_profile.py`, one a round.
"""

import os
from dataclasses import dataclass, replace
from typing import Any

from paceline.cluster.machine import Machine
from paceline.graph import Basis
from paceline.place.pipeline import LayerCost, PipelinePlan, Wires, price_on_cores
from paceline.runtime.stages import PipelineSchedule, Shape, versions_kept

CORES = float(os.cpu_count() or 1)
LEAST_SHARE = 0.5
"""Of its cores, that a machine is believed to give the stages at the least."""

TRIES = 8
"""Halvings of what is not known of the cores; after eight it is a five-hundredth."""

AT_WORK = {1: PipelineSchedule.ONE_F_ONE_B, 2: PipelineSchedule.TWO_BUFFERED}
"""Which pipeline was profiled, by versions of the weights."""


@dataclass(frozen=True)
class AtWork:
    """Stages and messages of a pipeline on one machine, and how it shares its cores."""

    stages: tuple[LayerCost, ...]
    wires: Wires
    machine: Machine


def at_work(profile: dict[str, Any], schedule: PipelineSchedule, rows: int) -> AtWork:
    """What holds for pipelines that keep as many versions of the weights as this one does."""
    versions = versions_kept(schedule)
    timed, message = profile["at_work"][str(versions)], profile["message"]
    end_ns = max(message["cpu_ns"], timed["end_ns"])
    rest_ns = max(0.0, message["wall_ns"] - 2 * message["cpu_ns"])
    known = AtWork(
        tuple(LayerCost(**stage) for stage in timed["stages"]),
        Wires(
            float("inf"),
            float("inf"),
            latency_ns=round(rest_ns),
            copy_ns=round(end_ns),
            basis=Basis.MEASURED,
        ),
        Machine(CORES, rested=profile["rested"], late_ns=round(profile["late_ns"])),
    )
    plan = PipelinePlan(AT_WORK[versions], Shape(len(known.stages), timed["microbatches"]), rows)
    return _sharing(known, plan, timed["step_ns"])


def _step_ns(plan: PipelinePlan, known: AtWork) -> int:
    """Of a pipeline on the machine that was profiled."""
    return price_on_cores(plan, known.stages, known.wires, known.machine).replayed_step_ns


def _sharing(known: AtWork, plan: PipelinePlan, measured_ns: float) -> AtWork:
    """With as many cores as give the profiled pipeline the step that it had: the system moves
    processes between cores late, the replay shares them without loss."""
    least, most = LEAST_SHARE * known.machine.cores, known.machine.cores
    for _ in range(TRIES):
        middle = (least + most) / 2
        if _step_ns(plan, _on(known, middle)) > measured_ns:
            least = middle
        else:
            most = middle
    return _on(known, most)


def _on(known: AtWork, cores: float) -> AtWork:
    return replace(known, machine=replace(known.machine, cores=cores))
