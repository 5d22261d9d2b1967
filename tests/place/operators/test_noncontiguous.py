"""Placement without contiguity: brute force, both solvers, what was proven before."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.place.operators import (
    Limits,
    Outcome,
    Solver,
    noncontiguous,
    place_contiguous,
    place_noncontiguous,
    read_problem,
)
from paceline.place.operators.classes import colour_classes
from paceline.place.operators.exhaustive import least_max_load
from paceline.place.operators.loads import Loads, split_of
from paceline.place.operators.local_search import improve
from paceline.place.operators.synthetic import random_problem

SHARED = Path(os.environ.get("PACELINE_SHARED", Path(__file__).parents[4] / "shared"))
BERT = SHARED / "data" / "placement" / "throughput-OperatorGraphs-bert_l-3_inference.json"
seeds = st.integers(0, 10**6)


@pytest.mark.parametrize("solver", list(Solver))
@settings(deadline=None, max_examples=15)
@given(seeds, st.booleans(), st.sampled_from([7.0, np.inf]))
def test_it_equals_brute_force(solver: Solver, seed: int, training: bool, memory: float) -> None:
    problem = random_problem(
        seed, nodes=3 if training else 6, training=training, memory=memory, unsupported=0.1,
        colours=0.2, cpus=seed % 2,
    )  # fmt: skip
    answer = place_noncontiguous(problem, Limits(threads=1), solver)
    best = least_max_load(problem, contiguous=False)
    if best is None:
        assert answer.outcome is Outcome.INFEASIBLE
        assert answer.notes
    else:
        assert answer.value == pytest.approx(best, rel=1e-6)
        assert answer.lower_bound == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("solver", list(Solver))
def test_a_device_that_nothing_may_use_holds_nothing(solver: Solver) -> None:
    problem = random_problem(
        67, nodes=3, training=True, memory=7.0, unsupported=0.1, colours=0.2, cpus=1
    )
    assert place_noncontiguous(problem, Limits(threads=1), solver).value == pytest.approx(
        least_max_load(problem, contiguous=False), rel=1e-6
    )


@pytest.mark.parametrize("solver", list(Solver))
def test_a_placement_that_a_solvers_presolve_once_lost_is_found(solver: Solver) -> None:
    """HiGHS 1.14.0 calls 33 optimal here."""
    problem = random_problem(744, nodes=6, memory=7.0, unsupported=0.1, colours=0.2, cpus=0)
    assert place_noncontiguous(problem, Limits(threads=1), solver).value == 31


@settings(deadline=None, max_examples=15)
@given(seeds)
def test_it_is_never_worse_than_contiguous(seed: int) -> None:
    problem = random_problem(seed, nodes=9, accelerators=3)
    free = place_noncontiguous(problem, Limits(threads=1))
    assert free.value <= place_contiguous(problem).value * (1 + 1e-12)


def test_three_layers_of_bert_are_proven() -> None:
    if not BERT.exists():
        pytest.skip(f"{BERT.name} is not here; set PACELINE_SHARED")
    answer = place_noncontiguous(read_problem(BERT))
    assert answer.value == pytest.approx(21.9084, rel=1e-5)
    assert answer.outcome is Outcome.OPTIMAL


@settings(deadline=None, max_examples=30)
@given(seeds, st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), max_size=20))
def test_moved_loads_equal_loads_counted_afresh(seed: int, moves: list[tuple[int, int]]) -> None:
    problem = random_problem(seed, nodes=8, accelerators=3)
    classes = colour_classes(problem, merge_trivial=False)
    loads = Loads(classes, [0] * len(classes))
    for c, device in moves:
        loads.move(c, device)
    assert loads.load == pytest.approx(Loads(classes, loads.at).load)
    split = split_of(classes, loads.at)
    used = sorted(set(loads.at))
    assert split.loads(problem) == pytest.approx([loads.load[d] for d in used])


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_local_search_never_returns_a_worse_or_invalid_assignment(seed: int) -> None:
    classes = colour_classes(random_problem(seed, nodes=8, memory=12.0, unsupported=0.2))
    start = [classes.accelerators] * len(classes)  # all on the CPU
    found = Loads(classes, improve(classes, start, 10.0, seed=seed, kicks=5))
    assert max(found.load) <= max(Loads(classes, start).load)
    assert found.valid()


def test_a_graph_with_too_many_choices_gets_local_search_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noncontiguous, "VARIABLES", 500)
    problem = replace(random_problem(1, nodes=40), cpus=0).with_devices(accelerators=30)
    answer = place_noncontiguous(problem, Limits(seconds=60))
    assert answer.split is not None
    assert any("local search only" in note for note in answer.notes)
    assert answer.lower_bound <= answer.value
