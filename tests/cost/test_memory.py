"""Peak memory: what ZeRO, recomputation, batch and schedule change, and by how much."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paceline.cluster import parse
from paceline.cost.memory import (
    Peak,
    described_peak,
    layer_activations,
    with_batch,
    with_recomputation,
    zero_sharded,
)
from paceline.errors import GraphError
from paceline.graph.kinds import MemoryCategory
from paceline.graph.schedules import in_flight
from paceline.imagine.transformer import (
    Degrees,
    Described,
    Recompute,
    Schedule,
    Training,
    Transformer,
    describe,
)
from paceline.imagine.transformer.finish import stage_params
from paceline.replay import replay

GPT = Transformer(layers=8, hidden=64, heads=4, seq=32, vocab=128)


ONE = Degrees()


def job(degrees: Degrees = ONE, **settings: Any) -> Described:
    return Described(GPT, degrees, Training(16, **settings))


def test_a_parameter_in_mixed_precision_takes_sixteen_bytes() -> None:
    peak = described_peak(job())
    assert peak.weights + peak.gradients + peak.optimizer == 16 * GPT.params


@pytest.mark.parametrize(
    ("stage", "left"), [(0, (8, 8, 24)), (1, (8, 8, 6)), (2, (8, 2, 6)), (3, (2, 2, 6))]
)
def test_zero_shares_out_one_more_part_with_each_stage(
    stage: int, left: tuple[int, int, int]
) -> None:
    found = zero_sharded(Peak(8, 8, 24, 5), stage, data=4)
    assert (found.weights, found.gradients, found.optimizer, found.activations) == (*left, 5)


def test_activations_follow_the_published_formula() -> None:
    tokens, h, a, s = 32, 64, 4, 32
    assert layer_activations(job()) == tokens * h * 34 + 5 * a * s * tokens
    assert layer_activations(job(recompute=Recompute.SELECTIVE)) == tokens * h * 34
    assert layer_activations(job(recompute=Recompute.FULL)) == 2 * tokens * h


def test_schedules_keep_different_numbers_of_micro_batches() -> None:
    kept = {
        schedule: [in_flight(schedule, stage, 4, 16, 1) for stage in (0, 3)]
        for schedule in (Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE)
    }
    assert kept == {
        Schedule.GPIPE: [16, 16],
        Schedule.ONE_F_ONE_B: [4, 1],
        Schedule.ZERO_BUBBLE: [4, 4],
    }


def test_batch_and_recomputation_change_activations_alone() -> None:
    peak = Peak(1, 2, 3, 1000)
    assert with_batch(peak, 2.0) == Peak(1, 2, 3, 2000)
    assert with_recomputation(peak, 5, 10, 0.1) == Peak(1, 2, 3, 250)
    assert with_recomputation(peak, 1, 10, 0.1).activations == 1000


@pytest.mark.parametrize(
    "change",
    [
        lambda p: with_batch(p, 0),
        lambda p: with_recomputation(p, 11, 10, 0.1),
        lambda p: zero_sharded(p, 4, 2),
    ],
)
def test_impossible_changes_are_refused(change: Callable[[Peak], Peak]) -> None:
    with pytest.raises(GraphError, match="give"):
        change(Peak(1, 1, 1, 1))


def replayed_peaks(made: Described) -> list[int]:
    """Peaks of the described graph's memory curves, stage by stage."""
    cluster = parse("{hosts: {count: 8, device: a100-80}, link: {rate: 100Gbps}}")
    timeline = replay(describe(made.model, made.degrees, made.training), cluster)
    return [curve.peak_bytes for curve in timeline.memory]


@pytest.mark.parametrize("schedule", list(Schedule))
@pytest.mark.parametrize("recompute", list(Recompute))
@pytest.mark.parametrize("stages", [1, 4])
def test_the_memory_curve_of_a_described_job_peaks_where_the_formula_says(
    schedule: Schedule, recompute: Recompute, stages: int
) -> None:
    chunks = 2 if schedule is Schedule.INTERLEAVED else 1
    made = job(Degrees(pipeline=stages), schedule=schedule, recompute=recompute, chunks=chunks)
    assert replayed_peaks(made) == [described_peak(made, stage).total for stage in range(stages)]


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_zero_and_tensor_ranks_lower_the_curve_as_the_formula_says(zero_stage: int) -> None:
    made = job(Degrees(data=4, tensor=2), zero_stage=zero_stage)
    assert replayed_peaks(made) == [described_peak(made).total]


def test_after_the_step_only_states_are_held() -> None:
    made = job(Degrees(pipeline=2), recompute=Recompute.FULL)
    memory = describe(made.model, made.degrees, made.training).graph.memory
    states = np.isin(
        memory.category,
        (MemoryCategory.WEIGHTS, MemoryCategory.GRADIENTS, MemoryCategory.OPTIMIZER),
    )
    assert int(memory.delta_bytes[~states].sum()) == 0
    assert int(memory.delta_bytes[states].sum()) == sum(
        16 * stage_params(made, stage) for stage in range(2)
    )
