"""Exact contiguous placement: brute force, published optima, its plain-Python definition."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.engine import native
from paceline.place.operators import (
    Limits,
    Outcome,
    Problem,
    Replication,
    place_contiguous,
    read_problem,
)
from paceline.place.operators.bounds import max_load_bound
from paceline.place.operators.classes import colour_classes, contiguous_classes
from paceline.place.operators.contiguous import is_contiguous
from paceline.place.operators.exhaustive import least_max_load
from paceline.place.operators.ideals import Status, solve, solve_in_python
from paceline.place.operators.synthetic import branching, random_problem

SHARED = Path(os.environ.get("PACELINE_SHARED", Path(__file__).parents[4] / "shared"))
DATA = SHARED / "data" / "placement"
needs_native = pytest.mark.skipif(native() is None, reason="the native core is not built")
few = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 10**6)


def chain(times: list[float], costs: list[float], **settings: int) -> Problem:
    problem = random_problem(0, nodes=len(times), cpus=0)
    ends = np.arange(len(times) - 1)
    return replace(
        problem,
        accelerator_time=np.array(times),
        cost=np.array(costs),
        size=np.ones(len(times)),
        source=ends,
        target=ends + 1,
        **settings,
    )


def test_a_chain_is_cut_where_the_result_is_small() -> None:
    problem = chain([4.0, 4.0, 4.0, 4.0], [1.0, 9.0, 2.0, 0.0])
    answer = place_contiguous(problem)
    # cut after the third: 12 + 2 and 4 + 2; after the second 8 + 9; after the first 12 + 1
    assert answer.value == 13.0
    assert answer.outcome is Outcome.OPTIMAL
    assert answer.gap == 0.0


def test_a_producer_with_many_readers_across_the_border_pays_once() -> None:
    problem = replace(
        chain([6.0, 2.0, 2.0, 2.0], [1.0, 0.0, 0.0, 0.0]),
        source=np.array([0, 0, 0]),
        target=np.array([1, 2, 3]),
    )
    assert place_contiguous(problem).value == 7.0  # 6 + 1 beside 2 + 2 + 2 + 1


def test_memory_moves_the_cut() -> None:
    problem = chain([1.0, 1.0, 1.0, 9.0], [0.0] * 4, memory=2)
    assert place_contiguous(problem).value == 10.0  # three light nodes would not fit together
    assert place_contiguous(replace(problem, memory=3)).value == 9.0


def test_it_is_found_where_no_cut_of_one_fixed_order_fits() -> None:
    # Whatever order the linearised program takes, here none of its cuts keeps the memory limit.
    problem = random_problem(29, colours=0.4, memory=9.0, unsupported=0.1, cpus=0)
    assert place_contiguous(problem).value == 24.0  # 3 + 10 + 8 and transfers of 3


@few
@given(seeds, st.booleans(), st.sampled_from([0.0, 0.4]), st.sampled_from([6.0, 9.0, np.inf]))
def test_it_equals_brute_force(seed: int, training: bool, colours: float, memory: float) -> None:
    problem = random_problem(
        seed, nodes=4 if training else 6, training=training, colours=colours, memory=memory,
        unsupported=0.1, cpus=seed % 2,
    )  # fmt: skip
    answer, best = place_contiguous(problem), least_max_load(problem, contiguous=True)
    if best is None:
        assert answer.outcome is Outcome.INFEASIBLE
        assert answer.notes
    else:
        assert answer.value == pytest.approx(best, rel=1e-12)
        assert answer.split is not None
        assert is_contiguous(problem, answer.split)


@few
@given(seeds, st.integers(1, 3))
def test_the_native_program_equals_its_definition(seed: int, replicas: int) -> None:
    problem = random_problem(seed, nodes=7, accelerators=3, cpus=2, memory=12.0, unsupported=0.1)
    classes = replace(contiguous_classes(problem), max_replicas=replicas, sync_cost=0.3)
    ours = solve(classes, 0.0, 1e6, Limits())
    plain = solve_in_python(classes, 0.0, 1e6, Limits())
    assert (ours.status, ours.ideals) == (plain.status, plain.ideals)
    assert ours.value == pytest.approx(plain.value, rel=1e-12)


@few
@given(seeds)
def test_one_more_accelerator_never_hurts(seed: int) -> None:
    problem = random_problem(seed, nodes=8)
    more = problem.with_devices(accelerators=3)
    assert place_contiguous(more).value <= place_contiguous(problem).value


@few
@given(seeds)
def test_merging_trivial_nodes_changes_no_value(seed: int) -> None:
    problem = random_problem(seed, nodes=7)
    idle = np.arange(7) % 2 == seed % 2
    problem = replace(
        problem,
        accelerator_time=np.where(idle, 0, problem.accelerator_time),
        cpu_time=np.where(idle, 0, problem.cpu_time),
    )
    values = [
        solve(contiguous_classes(problem, merge_trivial=merge), 0.0, 1e6, Limits()).value
        for merge in (True, False)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@few
@given(seeds)
def test_the_combinatorial_bound_is_below_the_optimum(seed: int) -> None:
    problem = random_problem(seed, nodes=5, unsupported=0.2, memory=9.0)
    best = least_max_load(problem, contiguous=False)
    if best is not None:
        assert max_load_bound(colour_classes(problem)) <= best * (1 + 1e-9)


def test_replication_shares_a_stage_that_cannot_be_cut() -> None:
    problem = chain([9.0, 1.0], [0.0, 0.0], accelerators=3)
    alone = place_contiguous(problem)
    free = place_contiguous(problem, replication=Replication(2, float("inf")))
    dear = place_contiguous(problem, replication=Replication(2, 1e-3))
    assert (alone.value, free.value, dear.value) == (9.0, 4.5, 9.0)
    assert free.split is not None
    assert max(part.replicas for part in free.split.parts) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("throughput-LayerGraphs-bert24_inference", 17.7899),
        ("throughput-LayerGraphs-bert24_training", 41.7458),
        ("throughput-LayerGraphs-resnet50_inference", 33.7747),
        ("throughput-OperatorGraphs-bert_l-3_inference", 27.9186),
    ],
)
@needs_native
def test_published_inputs_reach_their_published_optimum(name: str, value: float) -> None:
    file = DATA / f"{name}.json"
    if not file.exists():
        pytest.skip(f"{file.name} is not here; set PACELINE_SHARED")
    problem = read_problem(file)
    answer = place_contiguous(problem)
    assert answer.value == pytest.approx(value, rel=1e-4)
    assert answer.outcome is Outcome.OPTIMAL
    assert answer.split is not None
    assert is_contiguous(problem, answer.split)


@needs_native
def test_threads_do_not_change_the_answer() -> None:
    problem = branching((6, 6, 6), 2)
    one, two = (place_contiguous(problem, Limits(threads=n)) for n in (1, 2))
    assert one.value == two.value
    assert one.pairs == two.pairs


def test_too_many_ideals_fall_back_with_a_bound_and_say_so() -> None:
    problem = branching((5, 5, 5), 1)
    answer = place_contiguous(problem, Limits(ideals=100))
    exact = place_contiguous(problem)
    assert answer.outcome is not Outcome.INFEASIBLE
    assert "more than 100 ideals" in answer.notes[0]
    assert answer.lower_bound <= exact.value <= answer.value


@needs_native
def test_a_time_limit_keeps_the_linearised_answer() -> None:
    problem = branching((9, 9, 9), 1)
    answer = place_contiguous(problem, Limits(seconds=1e-6))
    assert answer.split is None or answer.lower_bound <= answer.value
    assert answer.notes


@needs_native
def test_a_run_out_of_time_still_proves_what_it_was_given() -> None:
    classes = contiguous_classes(branching((9, 9, 9), 1))
    chain = solve(classes, 1.0, 1e6, Limits(seconds=0.0))
    assert chain.status is Status.OUT_OF_TIME
    assert chain.lower_bound == 1.0
