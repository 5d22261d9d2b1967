"""Least maximum load without contiguity: any set may run on any device.

The contiguous answer and a local search give a start; an integer program improves it and proves
a bound. Without time for it, the start stands with the combinatorial bound.
"""

import time
from dataclasses import replace

from paceline.place.operators.answer import Answer, Goal, Outcome, infeasible
from paceline.place.operators.bounds import infeasibility, max_load_bound
from paceline.place.operators.classes import Classes, colour_classes
from paceline.place.operators.contiguous import LARGE, place_contiguous
from paceline.place.operators.greedy import greedy_share
from paceline.place.operators.ideals import Limits
from paceline.place.operators.loads import Loads, assignment_of, split_of
from paceline.place.operators.local_search import improve
from paceline.place.operators.mixed_integer import Proof, Solver, build_s, missing, prove
from paceline.place.operators.problem import Problem
from paceline.place.operators.split import Split, confirm

VARIABLES = 200_000
"""Above so many yes-or-no choices building the integer program alone takes minutes."""

PROVEN = 1e-6
"""A relative gap below this counts as closed: the integer program rounds times down by it."""


def place_noncontiguous(
    problem: Problem, limits: Limits | None = None, solver: Solver = Solver.CP_SAT
) -> Answer:
    """The best split found, with the bound that was proven."""
    limits, began = limits or Limits(), time.perf_counter()
    problem = problem.with_useful_devices()
    classes = colour_classes(problem)
    reasons = infeasibility(classes)
    if reasons:
        return infeasible(Goal.MAX_LOAD, solver.value, reasons)
    lower = max_load_bound(classes)
    split, start = _start(problem, classes, limits)
    notes: tuple[str, ...] = ()
    method = "local search" if len(classes) <= LARGE else "linearised ideals"
    proof = Proof(None, lower, False)
    choices = (len(classes) + len(classes.weight)) * (classes.accelerators + classes.cpus)
    if choices > VARIABLES:
        how = "the contiguous answer" if len(classes) > LARGE else "local search"
        notes = (f"{choices} choices are too many for the integer program: {how} only",)
    elif start is None or max(Loads(classes, start).load) > lower * (1 + PROVEN):
        left = limits.seconds - (time.perf_counter() - began)
        if build_s(classes) > left:
            notes = (
                f"building the integer program takes about {build_s(classes):.2g} s, which the "
                f"limit of {limits.seconds:g} s does not leave; raise --time-limit",
            )
        else:
            proof = _prove(solver, classes, start, lower, replace(limits, seconds=left))
    if proof.infeasible and start is None:
        return infeasible(Goal.MAX_LOAD, solver.value, ("no split keeps the memory limit",))
    if proof.assignment is not None:
        proven = split_of(classes, proof.assignment)
        if split is None or proven.max_load(problem) < split.max_load(problem):
            split, method = proven, solver.value
    return _answer(problem, split, proof.lower_bound, method, began, notes)


def _start(
    problem: Problem, classes: Classes, limits: Limits
) -> tuple[Split | None, list[int] | None]:
    """The contiguous answer and an even fill, improved by local search; the fill as it is where
    the first has none. The better one is where the integer program starts."""
    share = replace(limits, seconds=limits.seconds / 3)
    contiguous = place_contiguous(problem, share)
    if contiguous.split is None:
        return _filled(problem, classes)
    best = contiguous.split
    start = assignment_of(classes, best)
    if len(classes) > LARGE:
        return best, start
    filled = greedy_share(problem)
    begins = [start, *([] if filled is None else [assignment_of(classes, filled)])]
    valid = [at for at in begins if Loads(classes, at).valid()]
    improved = [improve(classes, at, min(2.0, limits.seconds / 5)) for at in valid]
    better = min(improved, key=lambda at: max(Loads(classes, at).load))
    found = split_of(classes, better)
    if found.max_load(problem) < best.max_load(problem):
        best = found
    return best, better


def _filled(problem: Problem, classes: Classes) -> tuple[Split | None, list[int] | None]:
    """The even fill alone, where there was no time for more and it keeps the limits."""
    filled = greedy_share(problem)
    if filled is None:
        return None, None
    at = assignment_of(classes, filled)
    return (filled, at) if Loads(classes, at).valid() else (None, None)


def _prove(
    solver: Solver, classes: Classes, start: list[int] | None, lower: float, limits: Limits
) -> Proof:
    upper = (
        max(Loads(classes, start).load)
        if start is not None
        else float((classes.accelerator_time + classes.cpu_time).sum() + classes.weight.sum())
    )
    try:
        return prove(
            solver, classes, start, lower, upper * (1 + 1e-9), limits.seconds, limits.threads
        )
    except ModuleNotFoundError as error:
        raise missing(solver) from error


def _answer(
    problem: Problem,
    split: Split | None,
    bound: float,
    method: str,
    began: float,
    notes: tuple[str, ...],
) -> Answer:
    seconds = time.perf_counter() - began
    if split is None:
        return Answer(
            Goal.MAX_LOAD, Outcome.NOTHING, method, float("inf"), bound, seconds, None, notes
        )
    value = confirm(problem, split).max_load(problem)
    closed = value <= bound * (1 + PROVEN * 10)
    return Answer(
        goal=Goal.MAX_LOAD,
        outcome=Outcome.OPTIMAL if closed else Outcome.FEASIBLE,
        method=method,
        value=value,
        lower_bound=min(bound, value),
        seconds=seconds,
        split=split,
        notes=notes,
    )
