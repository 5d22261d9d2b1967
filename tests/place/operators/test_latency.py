"""Least latency of one sample: brute force, the starts it may not be worse than, schedules."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.place.operators import Limits, Outcome, Problem, place_latency, read_problem
from paceline.place.operators.exhaustive import least_latency
from paceline.place.operators.latency import starts
from paceline.place.operators.latency_bound import piece_bound
from paceline.place.operators.schedule import PieceSchedule, of_split
from paceline.place.operators.synthetic import random_problem

SHARED = Path(os.environ.get("PACELINE_SHARED", Path(__file__).parents[4] / "shared"))
DATA = SHARED / "data" / "placement"
seeds = st.integers(0, 10**6)


def pair() -> Problem:
    """Two nodes in a row: 3 then 4 on an accelerator, the result between them costs 2."""
    return replace(
        random_problem(0, nodes=2, accelerators=2, cpus=1),
        accelerator_time=np.array([3.0, 4.0]),
        cpu_time=np.array([30.0, 40.0]),
        cost=np.array([2.0, 0.0]),
        source=np.array([0]),
        target=np.array([1]),
        size=np.array([1.0, 1.0]),
    )


def pieces(problem: Problem, *own: list[list[int]]) -> float:
    held = tuple(tuple(np.array(rows) for rows in piece) for piece in own)
    return PieceSchedule(problem, held).latency


def test_a_schedule_is_priced_as_by_hand() -> None:
    assert pieces(pair(), [[0, 1]]) == 7.0
    assert pieces(pair(), [[0]], [[1]]) == 3 + 2 + 2 + 4  # both sides pay
    assert pieces(pair(), [[0]]) == 3 + 2 + 40
    assert pieces(pair()) == 70.0


def test_pieces_that_wait_for_each_other_never_end() -> None:
    problem = replace(random_problem(0, nodes=3), source=np.array([0, 1]), target=np.array([1, 2]))
    assert pieces(problem, [[0, 2]]) == np.inf
    assert pieces(problem, [[0], [2]]) < np.inf
    assert pieces(problem, [[2], [0]]) == np.inf


def test_memory_splits_the_pair_and_the_cpu_takes_nothing() -> None:
    answer = place_latency(pair().with_devices(memory=1.0))
    assert answer.value == pytest.approx(11.0)
    assert answer.outcome is Outcome.OPTIMAL


@settings(deadline=None, max_examples=12)
@given(seeds, st.sampled_from([(1, 5), (2, 4)]), st.sampled_from([6.0, np.inf]))
def test_it_equals_brute_force(seed: int, shape: tuple[int, int], memory: float) -> None:
    subgraphs, nodes = shape
    problem = random_problem(seed, nodes=nodes, memory=memory, unsupported=0.1, colours=0.2)
    answer = place_latency(problem, Limits(seconds=10, threads=1), subgraphs)
    assert answer.value == pytest.approx(least_latency(problem, subgraphs), rel=1e-6)
    assert answer.lower_bound == pytest.approx(answer.value, rel=1e-4)


def test_the_bound_of_a_pair_that_memory_splits_is_its_optimum() -> None:
    assert piece_bound(pair().with_devices(memory=1.0)) == pytest.approx(11.0)
    assert piece_bound(pair()) == pytest.approx(7.0)


def test_a_result_read_past_the_border_is_paid_for_too() -> None:
    """0 -> 1 -> 2 and 0 -> 2, of which an accelerator holds two: 1 and 2 read 0 (cost 5) in one
    payment, 0 has paid it before; or 0 and 1 give out both their results, which 2 takes in."""
    problem = replace(
        random_problem(0, nodes=3, accelerators=2, cpus=1),
        accelerator_time=np.array([3.0, 4.0, 6.0]),
        cpu_time=np.array([300.0, 400.0, 600.0]),
        cost=np.array([5.0, 2.0, 0.0]),
        source=np.array([0, 1, 0]),
        target=np.array([1, 2, 2]),
        size=np.array([1.0, 1.0, 1.0]),
        memory=2.0,
    )
    apart, together = 3 + 5 + 5 + 4 + 6, 3 + 4 + (5 + 2) + (5 + 2) + 6
    assert least_latency(problem, 1) == min(apart, together) == 23
    assert piece_bound(problem) == pytest.approx(23.0)


@settings(deadline=None, max_examples=40)
@given(
    seeds, st.sampled_from([(1, 5), (2, 4), (1, 6)]), st.sampled_from([3.0, 6.0, np.inf]),
    st.sampled_from([0.0, 0.2]),
)  # fmt: skip
def test_no_schedule_undercuts_the_bound_of_pieces(
    seed: int, shape: tuple[int, int], memory: float, rare: float
) -> None:
    subgraphs, nodes = shape
    problem = random_problem(seed, nodes=nodes, memory=memory, unsupported=rare, colours=rare)
    least = least_latency(problem, subgraphs)
    assert least is not None
    assert piece_bound(problem) <= least


@pytest.mark.parametrize(
    "name", ["latency-LayerGraphs-bert24_inference", "latency-OperatorGraphs-bert_l-3_inference"]
)
def test_published_inputs_are_never_worse_than_their_starts(name: str) -> None:
    file = DATA / f"{name}.json"
    if not file.exists():
        pytest.skip(f"{file.name} is not here; set PACELINE_SHARED")
    problem = read_problem(file)
    answer = place_latency(problem, Limits(seconds=3))
    assert answer.split is not None
    for _, split in starts(problem, Limits(seconds=3)):
        assert answer.value <= of_split(problem, split).latency * (1 + 1e-12)
    for part in answer.split.parts:
        assert part.on_cpu or problem.size[part.rows].sum() <= problem.memory
    assert 0 <= answer.gap < 1
