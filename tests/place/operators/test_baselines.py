"""Baselines: valid where they can be, and never better than what is proven."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.place.operators import (
    baselines,
    expert,
    place_contiguous,
    place_noncontiguous,
    read_problem,
    read_split,
)
from paceline.place.operators.baselines import balanced_cut, single_tensor_blocks
from paceline.place.operators.classes import colour_classes, contiguous_classes
from paceline.place.operators.greedy import greedy_fill
from paceline.place.operators.synthetic import branching, random_problem

SHARED = Path(os.environ.get("PACELINE_SHARED", Path(__file__).parents[4] / "shared"))
DATA = SHARED / "data" / "placement"
CONTIGUOUS = {"linearised", "greedy", "pipedream"}


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6))
def test_no_baseline_beats_the_optimum(seed: int) -> None:
    problem = random_problem(seed, nodes=7, accelerators=3)
    exact, free = place_contiguous(problem), place_noncontiguous(problem)
    for found in baselines(problem):
        assert found.max_load is not None
        limit = exact if found.name in CONTIGUOUS else free
        assert found.max_load >= limit.lower_bound * (1 - 1e-6)


def test_the_greedy_fill_keeps_memory_and_leaves_the_rest_to_the_cpu() -> None:
    problem = replace(random_problem(3, nodes=6), size=np.full(6, 2.0), memory=4.0)
    split = greedy_fill(problem)
    assert split is not None
    assert [len(p.rows) for p in split.parts] == [2, 2, 2]
    assert [p.on_cpu for p in split.parts] == [False, False, True]
    assert greedy_fill(problem.with_devices(cpus=0)) is None


def test_branches_are_fused_until_a_chain_is_left() -> None:
    classes = contiguous_classes(branching((2, 3), 2))
    # source, block, block with their joins: cut only after the source and the first join
    block = single_tensor_blocks(classes)
    assert np.bincount(block).tolist() == [1, 6, 6]


def test_a_balanced_cut_is_balanced() -> None:
    classes = colour_classes(branching((5, 5), 6))
    at = balanced_cut(replace(classes, cpus=0))
    filled = np.bincount(at, classes.accelerator_time, classes.accelerators)
    assert filled.max() <= 1.2 * filled.mean()


def test_the_expert_split_of_bert_is_worse_than_the_optimum() -> None:
    file = DATA / "throughput-LayerGraphs-bert24_inference.json"
    if not file.exists():
        pytest.skip(f"{file.name} is not here; set PACELINE_SHARED")
    problem = read_problem(file)
    found = expert(problem, read_split(DATA / "expert-bert24_inference.json", problem))
    assert found.valid
    assert found.max_load == pytest.approx(20.084, rel=1e-4)
    assert found.max_load / place_contiguous(problem).value == pytest.approx(1.13, abs=0.01)
