"""The integer program of least maximum load without contiguity, for two solvers.

x[c, d] says that class c is on device d; y[h, d] that accelerator d cuts hyperedge h, forced by
x[a, d] - x[b, d] <= y[h, d] round a ring through the hyperedge's classes. Devices of one kind are
alike, so the j-th heaviest class may only use accelerators up to j.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from paceline.place.operators.classes import Classes
from paceline.place.operators.problem import PlacementError
from paceline.place.operators.split import TOLERANCE

UNITS = 1e8
"""CP-SAT counts in integers: the upper bound is so many units, rounding down every time."""


BUILT_PER_S = 100_000
"""Terms that Python adds to a program in a second: 66,000 to 150,000 were measured with CP-SAT."""


class Solver(Enum):
    """Which solver proves."""

    CP_SAT = "cp-sat"
    HIGHS = "highs"


@dataclass(frozen=True)
class Proof:
    """The best assignment a solver found, if any, and what it proved."""

    assignment: list[int] | None
    lower_bound: float
    infeasible: bool


def prove(
    solver: Solver,
    classes: Classes,
    start: Sequence[int] | None,
    lower: float,
    upper: float,
    seconds: float,
    threads: int,
) -> Proof:
    """Look for an assignment with maximum load of at most `upper`, and for a bound."""
    end = time.perf_counter() + seconds
    hint = None if start is None else _canonical(classes, start)
    return _SOLVERS[solver](_Program(classes, hint, lower, upper, end, threads))


def build_s(classes: Classes) -> float:
    """About how long it takes to build the program: a term a device for each class and each pin of
    a hyperedge."""
    terms = (len(classes) + len(classes.pins)) * (classes.accelerators + classes.cpus)
    return terms / BUILT_PER_S


@dataclass(frozen=True)
class _Program:
    classes: Classes
    hint: list[int] | None
    lower: float
    upper: float
    end: float  # of the time that building and solving may take
    threads: int

    def left_s(self) -> float:
        """For the solver, once the program is built."""
        return max(0.1, self.end - time.perf_counter())

    @property
    def devices(self) -> range:
        return range(self.classes.accelerators + self.classes.cpus)

    def on_cpu(self, device: int) -> bool:
        return device >= self.classes.accelerators

    def time(self, c: int, device: int) -> float:
        times = self.classes.cpu_time if self.on_cpu(device) else self.classes.accelerator_time
        return float(times[c])

    def allowed(self) -> list[list[int]]:
        """Devices of each class: supported ones, of which alike ones count once."""
        rank = {int(c): j for j, c in enumerate(_heaviest_first(self.classes))}
        return [
            [
                d
                for d in self.devices
                if self.on_cpu(d) or (self.classes.supported[c] and d <= rank[c])
            ]
            for c in range(len(self.classes))
        ]


def _heaviest_first(classes: Classes) -> list[int]:
    return [int(c) for c in np.argsort(-classes.accelerator_time, kind="stable")]


def _canonical(classes: Classes, assignment: Sequence[int]) -> list[int]:
    """The same assignment with accelerators numbered as the heaviest classes meet them."""
    name = dict[int, int]()
    for c in _heaviest_first(classes):
        device = assignment[c]
        if device < classes.accelerators:
            name.setdefault(device, len(name))
    return [name.get(device, device) for device in assignment]


def _cp_sat(program: _Program) -> Proof:
    """Times are rounded down to integer units, so that the bound holds for the exact ones."""
    from ortools.sat.python import cp_model

    classes, model = program.classes, cp_model.CpModel()
    unit = UNITS / program.upper
    allowed = program.allowed()
    x = {(c, d): model.new_bool_var("") for c, ds in enumerate(allowed) for d in ds}
    most = math.floor(program.upper * unit)
    load = model.new_int_var(math.floor(program.lower * unit * (1 - 1e-9)), most, "load")
    for c, ds in enumerate(allowed):
        model.add_exactly_one(x[c, d] for d in ds)
    for device in program.devices:
        here = [c for c in range(len(classes)) if (c, device) in x]
        work = [x[c, device] * math.floor(program.time(c, device) * unit) for c in here]
        if not program.on_cpu(device):
            model.add(_packed(x, classes, here, device) <= _room(classes))
            for pins, weight in classes.hyperedges():
                paid = math.floor(weight * unit)
                if paid:
                    work.append(_cut(model, x, pins, device) * paid)
        model.add(sum(work) <= load)
    model.minimize(load)
    if program.hint is not None:
        for (c, d), variable in x.items():
            model.add_hint(variable, program.hint[c] == d)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = program.left_s()
    solver.parameters.num_workers = program.threads
    solver.parameters.relative_gap_limit = 1e-7
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Proof(None, program.lower, True)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Proof(None, max(program.lower, solver.best_objective_bound / unit), False)
    found = [next(d for d in ds if solver.value(x[c, d])) for c, ds in enumerate(allowed)]
    return Proof(found, max(program.lower, solver.best_objective_bound / unit), False)


def _cut(model: Any, x: dict[tuple[int, int], Any], pins: Sequence[int], device: int) -> Any:
    """A variable that is true wherever some but not all of `pins` are on the device."""
    cut = model.new_bool_var("")
    for a, b in zip(pins, (*pins[1:], pins[0])):
        if (a, device) not in x:
            continue
        inside = [x[b, device]] if (b, device) in x else []
        model.add_bool_or(~x[a, device], cut, *inside)
    return cut


def _packed(x: dict[tuple[int, int], Any], classes: Classes, here: list[int], device: int) -> Any:
    """Memory of a device in integers rounded down: a relaxation of at most a part in 10^9."""
    scale = _memory_scale(classes)
    return sum(x[c, device] * math.floor(classes.size[c] * scale) for c in here)


def _room(classes: Classes) -> int:
    total = float(classes.size.sum())
    return math.floor(min(classes.memory * (1 + TOLERANCE), total) * _memory_scale(classes))


def _memory_scale(classes: Classes) -> float:
    """Sizes that are small integers stay as they are."""
    total = float(classes.size.sum())
    whole = bool((classes.size == np.floor(classes.size)).all()) and total < 2**50
    return 1.0 if whole or total == 0 else 1e12 / total


def _highs(program: _Program) -> Proof:
    """The same program on continuous times."""
    import highspy

    classes, model = program.classes, highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", program.threads)
    model.setOptionValue("mip_rel_gap", 1e-6)
    allowed = program.allowed()
    x = {(c, d): model.addBinary() for c, ds in enumerate(allowed) for d in ds}
    load = model.addVariable(lb=program.lower, ub=program.upper, obj=1.0)
    for c, ds in enumerate(allowed):
        model.addConstr(sum(x[c, d] for d in ds) == 1)
    for device in program.devices:
        here = [c for c in range(len(classes)) if (c, device) in x]
        work = [x[c, device] * program.time(c, device) for c in here]
        if not program.on_cpu(device):
            room = min(classes.memory, float(classes.size.sum())) or 1.0
            if here:  # a device that no class may use has nothing to hold
                model.addConstr(sum(x[c, device] * (classes.size[c] / room) for c in here) <= 1)
            for pins, weight in classes.hyperedges():
                work.append(_cut_row(model, x, pins, device) * weight)
        model.addConstr(sum(work) <= load)
    if program.hint is not None:
        columns = np.array([v.index for v in x.values()], np.int32)
        values = np.array([float(program.hint[c] == d) for c, d in x], np.float64)
        model.setSolution(len(columns), columns, values)
    model.setOptionValue("time_limit", program.left_s())
    model.run()
    info = model.getInfo()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Proof(None, program.lower, True)
    bound = max(program.lower, info.mip_dual_bound) if math.isfinite(info.mip_dual_bound) else 0.0
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Proof(None, max(program.lower, bound), False)
    values = model.getSolution().col_value
    found = [max(ds, key=lambda d: values[x[c, d].index]) for c, ds in enumerate(allowed)]
    return Proof(found, max(program.lower, bound), False)


def _cut_row(model: Any, x: dict[tuple[int, int], Any], pins: Sequence[int], device: int) -> Any:
    cut = model.addVariable(lb=0.0, ub=1.0)
    for a, b in zip(pins, (*pins[1:], pins[0])):
        if (a, device) in x:
            inside = x.get((b, device), 0)
            model.addConstr(x[a, device] - inside <= cut)
    return cut


_SOLVERS: dict[Solver, Callable[[_Program], Proof]] = {
    Solver.CP_SAT: _cp_sat,
    Solver.HIGHS: _highs,
}


def missing(solver: Solver) -> PlacementError:
    """The error for a solver that is not installed."""
    package = {Solver.CP_SAT: "ortools", Solver.HIGHS: "highspy"}[solver]
    return PlacementError(
        f"the {solver.value} solver needs the package {package!r}, which is not installed. "
        "Install paceline with the extra 'place'."
    )
