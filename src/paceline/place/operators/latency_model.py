"""The program of least latency, for CP-SAT: which piece holds each node, and when it runs.

Times are rounded down to integer units, so that its bound holds for the exact times; what it
finds is priced again exactly. Paper's equations: start[s] >= end[u] where u enters piece s;
finish[s] = start[s] + times + costs in and out; end[v] >= finish[s] inside; on a CPU
end[v] >= end[u] + cpu[v]; pieces of one accelerator follow each other.
"""

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.place.operators.problem import Problem
from paceline.place.operators.schedule import PieceSchedule
from paceline.place.operators.split import TOLERANCE

UNITS = 1e7
"""The upper bound is so many integer units."""


@dataclass(frozen=True)
class Found:
    """The best schedule of a run, if any, and the latency that nothing undercuts."""

    schedule: PieceSchedule | None
    lower_bound: float
    infeasible: bool


def solve(
    problem: Problem, pieces: int, hint: PieceSchedule, lower: float, seconds: float, threads: int
) -> Found:
    """Look for a schedule better than `hint`, with up to `pieces` pieces an accelerator."""
    from ortools.sat.python import cp_model

    end = time.perf_counter() + seconds  # building the program counts too
    program = _Program(problem, pieces, hint.latency)
    model, x = program.build(cp_model.CpModel(), lower)
    program.give_hint(model, x, hint)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.1, end - time.perf_counter())
    solver.parameters.num_workers = threads
    solver.parameters.relative_gap_limit = 1e-6
    # Without halving, one worker alone lowers the latency unit by unit.
    solver.parameters.binary_search_num_conflicts = 10
    status = solver.solve(model)
    bound = max(lower, solver.best_objective_bound / program.unit)
    if status == cp_model.INFEASIBLE:
        return Found(None, lower, True)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Found(None, bound, False)
    held = [
        tuple(
            np.array([n for n in range(len(problem)) if solver.value(x[n, a * pieces + q])])
            for q in range(pieces)
        )
        for a in range(problem.accelerators)
    ]
    kept = tuple(tuple(rows for rows in own if len(rows)) for own in held)
    return Found(PieceSchedule(problem, kept), bound, False)


class _Program:
    def __init__(self, problem: Problem, pieces: int, upper: float) -> None:
        self.problem, self.per = problem, pieces
        self.count = problem.accelerators * pieces
        self.unit = UNITS / upper if upper > 0 else 1.0
        self.horizon = math.floor(upper * self.unit)
        self.edges = list(zip(problem.source.tolist(), problem.target.tolist()))

    def floor(self, time: float) -> int:
        return math.floor(time * self.unit)

    def build(self, model: Any, lower: float) -> tuple[Any, dict[tuple[int, int], Any]]:
        x = self._choices(model)
        end = [model.new_int_var(0, self.horizon, "") for _ in range(len(self.problem))]
        previous = None
        for s in range(self.count):
            begin = previous if s % self.per else None
            previous = self._piece(model, x, end, s, begin)
        self._cpu_nodes(model, x, end)
        latency = model.new_int_var(self.floor(lower * (1 - 1e-9)), self.horizon, "latency")
        model.add_max_equality(latency, end)
        model.minimize(latency)
        return model, x

    def _choices(self, model: Any) -> dict[tuple[int, int], Any]:
        """x[n, s]: node n is in piece s; x[n, -1]: on a CPU. Nodes of one colour share an
        accelerator, and with one piece an accelerator they share the variable."""
        problem = self.problem
        x: dict[tuple[int, int], Any] = {}
        first: dict[int, int] = {}
        for n, colour in enumerate(problem.colour.tolist()):
            leader = first.setdefault(colour, n)
            if leader != n and self.per == 1:
                x.update({(n, s): x[leader, s] for s in range(-1, self.count)})
                continue
            for s in range(-1, self.count):
                x[n, s] = model.new_bool_var("")
            model.add_exactly_one(x[n, s] for s in range(-1, self.count))
            if not problem.cpus:
                model.add(x[n, -1] == 0)
            if leader != n:
                self._together(model, x, leader, n)
        self._limits(model, x)
        return x

    def _together(self, model: Any, x: Any, a: int, b: int) -> None:
        model.add(x[a, -1] == x[b, -1])
        for accelerator in range(self.problem.accelerators):
            own = range(accelerator * self.per, (accelerator + 1) * self.per)
            model.add(sum(x[a, s] for s in own) == sum(x[b, s] for s in own))

    def _limits(self, model: Any, x: Any) -> None:
        problem = self.problem
        for n in np.flatnonzero(~problem.supported).tolist():
            model.add(x[n, -1] == 1)
        total = float(problem.size.sum())
        scale = 1.0 if total < 2**50 and (problem.size % 1 == 0).all() else 1e12 / total
        room = math.floor(min(problem.memory * (1 + TOLERANCE), total) * scale)
        sizes = [math.floor(size * scale) for size in problem.size.tolist()]
        for accelerator in range(problem.accelerators):
            own = range(accelerator * self.per, (accelerator + 1) * self.per)
            held = [x[n, s] * size for n, size in enumerate(sizes) if size for s in own]
            model.add(sum(held) <= room)

    def _piece(self, model: Any, x: Any, end: list[Any], s: int, earlier: Any) -> Any:
        """One piece's times; returns when it ends."""
        problem = self.problem
        start = model.new_int_var(0, self.horizon, "")
        finish = model.new_int_var(0, self.horizon, "")
        if earlier is not None:
            model.add(start >= earlier)
        takes: dict[int, Any] = {}
        gives: dict[int, Any] = {}
        for u, v in self.edges:
            if u not in takes:
                takes[u], gives[u] = model.new_bool_var(""), model.new_bool_var("")
                model.add(start >= end[u]).only_enforce_if(takes[u])
            model.add_bool_or(~x[v, s], x[u, s], takes[u])
            model.add_bool_or(~x[u, s], x[v, s], gives[u])
        times, costs = problem.accelerator_time.tolist(), problem.cost.tolist()
        work = [x[n, s] * self.floor(t) for n, t in enumerate(times) if t]
        paid = [(takes[u] + gives[u]) * self.floor(costs[u]) for u in takes if costs[u]]
        model.add(finish >= start + sum(work) + sum(paid))
        for n in range(len(problem)):
            model.add(end[n] >= finish).only_enforce_if(x[n, s])
        return finish

    def _cpu_nodes(self, model: Any, x: Any, end: list[Any]) -> None:
        times = [self.floor(t) for t in self.problem.cpu_time.tolist()]
        for n, took in enumerate(times):
            if took:
                model.add(end[n] >= took).only_enforce_if(x[n, -1])
        for u, v in self.edges:
            model.add(end[v] >= end[u] + times[v]).only_enforce_if(x[v, -1])

    def give_hint(self, model: Any, x: Any, hint: PieceSchedule) -> None:
        piece = np.full(len(self.problem), -1)
        for a, own in enumerate(hint.pieces):
            for q, rows in enumerate(own):
                piece[rows] = a * self.per + q
        seen: set[int] = set()
        for (n, s), variable in x.items():
            if variable.index not in seen:
                seen.add(variable.index)
                model.add_hint(variable, bool(piece[n] == s))
