"""The operators of one layer on the cores of one accelerator: least makespan.

Every operator runs on one core of its unit, or on all of them at once. Three ways, by price: a
lower bound, a list schedule (optimal where it meets the bound), and CP-SAT. The tests hold them
against the paper's integer program on small layers.
"""

import heapq
from dataclasses import dataclass
from math import ceil
from typing import Any

from paceline.place.hardware.estimate import Durations, Operator, Unit, cores_of, durations
from paceline.place.hardware.template import Template


@dataclass(frozen=True)
class OperatorTask:
    """An operator with its durations in cycles."""

    unit: Unit
    one: int
    all: int
    after: tuple[int, ...]


@dataclass(frozen=True)
class Workload:
    """A layer's tasks, in topological order, and the cores they share."""

    tasks: tuple[OperatorTask, ...]
    cores: dict[Unit, int]


def workload(operators: tuple[Operator, ...], template: Template) -> Workload:
    """Operators with their estimated durations."""

    def task(op: Operator) -> OperatorTask:
        found: Durations = durations(op, template)
        return OperatorTask(op.unit, found.one, found.all, op.after)

    return Workload(tuple(map(task, operators)), {unit: cores_of(unit, template) for unit in Unit})


def lower_bound(work: Workload) -> int:
    """The longest path with every task at its fastest, and each unit's work shared evenly."""
    ends: list[int] = []
    for task in work.tasks:
        ends.append(max((ends[b] for b in task.after), default=0) + min(task.one, task.all))
    shared = [
        ceil(sum(min(t.one, t.all * cores) for t in work.tasks if t.unit is unit) / cores)
        for unit, cores in work.cores.items()
    ]
    return max(*ends, *shared)


def window_bound(work: Workload) -> int:
    """A tighter bound: tasks that cannot start before h nor end later than t before the end have
    to share their unit's cores between the two, for every h and t."""
    heads, tails = _heads(work), _tails(work)
    best = lower_bound(work)
    for unit, cores in work.cores.items():
        own = [
            (heads[i], tails[i] - t.all, min(t.one, t.all * cores))
            for i, t in enumerate(work.tasks)
            if t.unit is unit
        ]
        for head in {h for h, _, _ in own}:
            busy = 0
            for _, tail, share in sorted((x for x in own if x[0] >= head), key=lambda x: -x[1]):
                busy += share
                best = max(best, head + ceil(busy / cores) + tail)
    return best


def greedy(work: Workload) -> int:
    """The better of two schedules by longest remaining path: every task on all cores, or one core
    for those that would waste more than half of all cores."""
    return min(_greedy(work, modes) for modes in _modes(work))


def list_schedule(work: Workload) -> int:
    """The greedy schedules, in which single tasks change between one core and all while that
    helps."""
    return min(_flip(work, modes) for modes in _modes(work))


def _modes(work: Workload) -> tuple[list[bool], list[bool]]:
    thrifty = [2 * t.one > t.all * work.cores[t.unit] for t in work.tasks]
    return [True] * len(work.tasks), thrifty


def _flip(work: Workload, whole: list[bool]) -> int:
    best, bound = _greedy(work, whole), window_bound(work)
    better = True
    while better and best > bound:
        better = False
        for i, task in enumerate(work.tasks):
            if work.cores[task.unit] == 1:
                continue
            whole[i] = not whole[i]
            found = _greedy(work, whole)
            if found < best:
                best, better = found, True
            else:
                whole[i] = not whole[i]
    return best


def optimal(work: Workload, effort: float = 2.0) -> int:
    """The least makespan; where CP-SAT's effort (its deterministic seconds) is spent, the best it
    found, which is the same on every machine."""
    bound, listed = window_bound(work), list_schedule(work)
    if listed <= bound:
        return listed
    return min(listed, _cp_sat(work, bound, listed, effort))


def _greedy(work: Workload, whole: list[bool]) -> int:
    """Ready tasks start by longest remaining path; one that wants all cores waits for them."""
    tasks = work.tasks
    tail = _tails(work)
    waits = [len(t.after) for t in tasks]
    readers: list[list[int]] = [[] for _ in tasks]
    for i, t in enumerate(tasks):
        for before in t.after:
            readers[before].append(i)
    ready = {
        unit: [i for i, t in enumerate(tasks) if not t.after and t.unit is unit] for unit in Unit
    }
    free = dict(work.cores)
    running: list[tuple[int, int, int]] = []
    now = 0
    while True:
        for unit, waiting in ready.items():
            waiting.sort(key=lambda i: -tail[i])
            while waiting:
                i = waiting[0]
                taken = work.cores[unit] if whole[i] else 1
                if free[unit] < taken:
                    break
                waiting.pop(0)
                free[unit] -= taken
                lasts = tasks[i].all if whole[i] else tasks[i].one
                heapq.heappush(running, (now + lasts, i, taken))
        if not running:
            return now
        now = running[0][0]
        while running and running[0][0] == now:
            _, i, taken = heapq.heappop(running)
            free[tasks[i].unit] += taken
            for reader in readers[i]:
                waits[reader] -= 1
                if not waits[reader]:
                    ready[tasks[reader].unit].append(reader)


def _heads(work: Workload) -> list[int]:
    """Longest path from the start to each task's start."""
    heads: list[int] = []
    for task in work.tasks:
        heads.append(max((heads[b] + work.tasks[b].all for b in task.after), default=0))
    return heads


def _tails(work: Workload) -> list[int]:
    """Longest path from each task's start to the end."""
    tails = [t.all for t in work.tasks]
    for i in reversed(range(len(tails))):
        for before in work.tasks[i].after:
            tails[before] = max(tails[before], work.tasks[before].all + tails[i])
    return tails


def _cp_sat(work: Workload, bound: int, upper: int, effort: float) -> int:
    """One optional interval a mode; a unit's cores are a cumulative resource."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    makespan = model.new_int_var(bound, upper, "makespan")
    ends: list[Any] = []
    uses: dict[Unit, list[tuple[Any, int]]] = {unit: [] for unit in work.cores}
    for task in work.tasks:
        start, end = model.new_int_var(0, upper, ""), model.new_int_var(0, upper, "")
        whole = model.new_bool_var("")
        for chosen, lasts, taken in (
            (whole, task.all, work.cores[task.unit]),
            (~whole, task.one, 1),
        ):
            interval = model.new_optional_interval_var(start, lasts, end, chosen, "")
            uses[task.unit].append((interval, taken))
        for before in task.after:
            model.add(start >= ends[before])
        model.add(end <= makespan)
        ends.append(end)
    for unit, used in uses.items():
        model.add_cumulative([i for i, _ in used], [n for _, n in used], work.cores[unit])
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = effort
    solver.parameters.num_workers = 1
    solver.parameters.relative_gap_limit = 1e-3
    solver.parameters.binary_search_num_conflicts = 10
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return int(solver.objective_value) if found else upper
