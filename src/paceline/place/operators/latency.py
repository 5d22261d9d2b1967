"""Least latency of one sample, with up to q pieces an accelerator.

Starts: everything on CPUs, the greedy fill, the max-load split, and a chain of ideals with the
least SUM of loads. The best of them is the hint of a CP-SAT program, whose bound gives the gap.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from paceline.place.operators import latency_model
from paceline.place.operators.answer import Answer, Goal, Outcome, infeasible
from paceline.place.operators.bounds import infeasibility
from paceline.place.operators.classes import colour_classes, contiguous_classes
from paceline.place.operators.contiguous import linearised, place_contiguous, split_of_chain
from paceline.place.operators.greedy import greedy_fill
from paceline.place.operators.ideals import Limits
from paceline.place.operators.latency_bound import piece_bound
from paceline.place.operators.mixed_integer import Solver, missing
from paceline.place.operators.problem import PlacementError, Problem
from paceline.place.operators.schedule import PieceSchedule, critical_path, of_split
from paceline.place.operators.split import PlacedNodes, Split, confirm

CHOICES = 60_000
"""Above so many (node, piece) pairs CP-SAT spends its time on building the program."""


def place_latency(problem: Problem, limits: Limits | None = None, pieces: int = 1) -> Answer:
    """The best schedule found, with the bound that was proven."""
    limits, began = limits or Limits(), time.perf_counter()
    if pieces < 1:
        raise PlacementError(f"{pieces} subgraphs an accelerator; at least 1 is needed")
    problem = problem.with_useful_devices()
    reasons = infeasibility(colour_classes(problem, merge_trivial=False))
    if reasons:
        return infeasible(Goal.LATENCY, "cp-sat", reasons)
    lower = max(critical_path(problem), piece_bound(problem))
    found = {name: of_split(problem, split) for name, split in starts(problem, limits)}
    if not found:
        note = ("none of the starting schedules keeps the memory limit",)
        seconds = time.perf_counter() - began
        never = float("inf")
        return Answer(Goal.LATENCY, Outcome.NOTHING, "none", never, lower, seconds, None, note)
    method, best = min(found.items(), key=lambda item: item[1].latency)
    notes: tuple[str, ...] = ()
    if len(problem) * problem.accelerators * pieces > CHOICES:
        notes = (f"{len(problem)} nodes are too many for CP-SAT: best starting schedule only",)
    elif best.latency > lower * (1 + 1e-9):
        left = limits.seconds - (time.perf_counter() - began)
        try:
            proof = latency_model.solve(problem, pieces, best, lower, left, limits.threads)
        except ModuleNotFoundError as error:
            raise missing(Solver.CP_SAT) from error
        lower = proof.lower_bound
        if proof.schedule is not None and proof.schedule.latency < best.latency:
            method, best = "cp-sat", proof.schedule
    return _answer(best, method, lower, began, notes)


def starts(problem: Problem, limits: Limits) -> Iterator[tuple[str, Split]]:
    """Schedules that no answer may be worse than, where each keeps the limits."""
    if problem.cpus:
        yield "all on CPUs", all_on_cpus(problem)
    greedy = greedy_fill(problem)
    if greedy is not None:
        yield "greedy", greedy
    share = replace(limits, seconds=limits.seconds / 4)
    max_load = place_contiguous(problem, share)
    if max_load.split is not None:
        yield "max-load split", max_load.split
    classes = replace(contiguous_classes(problem), total=True)
    joined, chain = linearised(problem, classes, share)
    if chain.stages:
        yield "least total chain", split_of_chain(joined, chain)


def all_on_cpus(problem: Problem) -> Split:
    """One CPU part; for latency CPUs are plenty."""
    return Split((PlacedNodes(True, np.arange(len(problem))),))


def _answer(
    best: PieceSchedule, method: str, lower: float, began: float, notes: tuple[str, ...]
) -> Answer:
    confirm(best.problem, best.split)
    closed = best.latency <= lower * (1 + 1e-5)
    return Answer(
        goal=Goal.LATENCY,
        outcome=Outcome.OPTIMAL if closed else Outcome.FEASIBLE,
        method=method,
        value=best.latency,
        lower_bound=min(lower, best.latency),
        seconds=time.perf_counter() - began,
        split=best.split,
        notes=notes,
        schedule=best,
    )
