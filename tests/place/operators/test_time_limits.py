"""Searches keep their time limit: by counting what is built and asked, never by the clock."""

from typing import Any

import numpy as np
import pytest

from paceline.place.operators import (
    Limits,
    Outcome,
    Problem,
    Solver,
    mixed_integer,
    noncontiguous,
    place_contiguous,
    place_latency,
    place_noncontiguous,
)
from paceline.place.operators.classes import Classes, colour_classes
from paceline.place.operators.mixed_integer import Proof, build_s
from paceline.place.operators.synthetic import random_problem

pytest.importorskip("ortools", reason="placements are proven by CP-SAT; install paceline[place]")


def searched(monkeypatch: pytest.MonkeyPatch) -> list[Classes]:
    """What the integer program is asked about; it finds nothing."""
    asked = list[Classes]()

    def prove(solver: Solver, classes: Classes, *_: Any) -> Proof:
        asked.append(classes)
        return Proof(None, 0.0, False)

    monkeypatch.setattr(noncontiguous, "prove", prove)
    return asked


def test_no_more_devices_are_searched_than_there_are_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = searched(monkeypatch)
    place_noncontiguous(random_problem(1, 10, accelerators=12_000, cpus=300), Limits(seconds=1))
    assert {(classes.accelerators, classes.cpus) for classes in asked} <= {(10, 10)}
    assert asked


@pytest.mark.parametrize("place", [place_noncontiguous, place_contiguous, place_latency])
def test_devices_beyond_the_nodes_change_no_answer(place: Any) -> None:
    few, many = (random_problem(3, 5, accelerators=count) for count in (5, 5000))
    limits = Limits(seconds=5, threads=1)
    answers = [place(problem, limits) for problem in (few, many)]
    assert answers[0].value == answers[1].value
    assert {answer.outcome for answer in answers} == {Outcome.OPTIMAL}


def test_a_program_that_the_time_does_not_suffice_to_build_is_not_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = searched(monkeypatch)
    problem = random_problem(1, 60, accelerators=60)
    assert build_s(colour_classes(problem)) > 0.3
    answer = place_noncontiguous(problem, Limits(seconds=0.3))
    assert not asked
    assert "raise --time-limit" in answer.notes[0]
    assert answer.outcome is Outcome.FEASIBLE
    assert np.isfinite(answer.value)


def test_twice_the_devices_take_twice_as_long_to_build() -> None:
    classes = [colour_classes(random_problem(1, 8, accelerators=n, cpus=0)) for n in (4, 8)]
    assert build_s(classes[1]) == 2 * build_s(classes[0])


@pytest.mark.parametrize("solver", Solver)
def test_building_the_program_is_taken_off_the_solvers_time(
    solver: Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock on which each look takes ten seconds."""
    pytest.importorskip("highspy", reason="the second solver; install paceline[place]")
    now, given = [0.0], list[float]()

    def look() -> float:
        now[0] += 10.0
        return now[0]

    def left_s(program: Any) -> float:
        given.append(program.end - look())
        return given[-1]

    monkeypatch.setattr(mixed_integer.time, "perf_counter", look)
    monkeypatch.setattr(mixed_integer._Program, "left_s", left_s)
    problem: Problem = random_problem(2, 4)
    classes = colour_classes(problem)
    mixed_integer.prove(solver, classes, [0] * len(classes), 0.0, 1e3, 60.0, 1)
    assert given == [60.0 - 10.0]
