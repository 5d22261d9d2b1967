"""`Problem`: an operator graph, the devices it may run on, and what every choice costs.

Columns inside, one row a node; a node has ONE communication cost, paid once by each set of nodes
whose border one of its edges crosses, in either direction.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PacelineError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class PlacementError(PacelineError):
    """A placement problem contradicts itself, or a solver for it is missing."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One row a node; `source` and `target` hold rows, not ids."""

    ids: Ints
    supported: Bools  # may it run on an accelerator?
    cpu_time: Floats
    accelerator_time: Floats
    size: Floats  # what it occupies of an accelerator's memory
    backward: Bools
    colour: Ints  # nodes of one colour stay together; dense from 0
    cost: Floats  # communication of the node's result
    source: Ints
    target: Ints
    accelerators: int
    cpus: int
    memory: float  # of each accelerator, in the unit of `size`
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for column in vars(self).values():
            if isinstance(column, np.ndarray):
                column.setflags(write=False)

    def __len__(self) -> int:
        return len(self.ids)

    def name(self, row: int) -> str:
        """A node for messages: its id, and its name where it has one."""
        text = self.names[row] if self.names else ""
        return f"node {self.ids[row]} ({text})" if text else f"node {self.ids[row]}"

    def with_devices(
        self,
        accelerators: int | None = None,
        cpus: int | None = None,
        memory: float | None = None,
    ) -> "Problem":
        """The same graph on other devices; None keeps what is there."""
        return replace(
            self,
            accelerators=self.accelerators if accelerators is None else accelerators,
            cpus=self.cpus if cpus is None else cpus,
            memory=self.memory if memory is None else memory,
        )

    def with_useful_devices(self) -> "Problem":
        """The same graph on no more devices of a kind than it has nodes. They are alike, so that
        any others stay empty in some best answer."""
        return self.with_devices(min(self.accelerators, len(self)), min(self.cpus, len(self)))


def check(problem: Problem) -> Problem:
    """The problem itself, or an error that says what is wrong with it."""
    _check_devices(problem)
    _check_numbers(problem)
    _check_edges(problem)
    return problem


def topological_order(count: int, source: Ints, target: Ints) -> tuple[Ints, Ints]:
    """Rows so that every edge points forward, and the rows that no such order can hold."""
    waits = np.bincount(target, minlength=count)
    start, after = outgoing(count, source, target)
    ready = np.flatnonzero(waits == 0).tolist()
    left = waits.tolist()
    for row in ready:  # grows while it is read
        for nxt in after[start[row] : start[row + 1]].tolist():
            left[nxt] -= 1
            if left[nxt] == 0:
                ready.append(nxt)
    stuck = np.flatnonzero(np.array(left, np.int64) > 0)
    return np.array(ready, np.int64), stuck


def outgoing(count: int, source: Ints, target: Ints) -> tuple[Ints, Ints]:
    """Edges in CSR form: the targets of row i are `after[start[i]:start[i + 1]]`."""
    order = np.argsort(source, kind="stable")
    start = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=count), out=start[1:])
    return start, target[order]


def _check_devices(problem: Problem) -> None:
    if problem.accelerators < 0 or problem.cpus < 0:
        raise PlacementError(
            f"{problem.accelerators} accelerators and {problem.cpus} CPUs: "
            "numbers of devices must not be negative"
        )
    if problem.accelerators + problem.cpus == 0:
        raise PlacementError(
            "no device to place on: maxFPGAs and maxCPUs are both 0. Give --devices or --cpus."
        )
    if np.isnan(problem.memory) or problem.memory < 0:
        raise PlacementError(f"memory of an accelerator is {problem.memory}; it must be 0 or more")
    if len(problem) == 0:
        raise PlacementError("the graph has no nodes; there is nothing to place")


def _check_numbers(problem: Problem) -> None:
    columns = {
        "cpuLatency": problem.cpu_time,
        "fpgaLatency": problem.accelerator_time,
        "size": problem.size,
        "cost of its edges": problem.cost,
    }
    for what, column in columns.items():
        wrong = np.flatnonzero(~np.isfinite(column) | (column < 0))
        if len(wrong):
            raise PlacementError(
                f"{problem.name(wrong[0])}: {what} is {column[wrong[0]]}; "
                "it must be a finite number, 0 or more"
            )


def _check_edges(problem: Problem) -> None:
    _, stuck = topological_order(len(problem), problem.source, problem.target)
    if len(stuck):
        shown = ", ".join(problem.name(row) for row in _cycle(problem, stuck)[:6])
        raise PlacementError(f"the graph has a cycle, through {shown}; only acyclic graphs can run")
    turned = problem.backward[problem.source] & ~problem.backward[problem.target]
    if turned.any():
        edge = int(np.flatnonzero(turned)[0])
        raise PlacementError(
            f"edge from backward {problem.name(problem.source[edge])} to forward "
            f"{problem.name(problem.target[edge])}: the backward part must follow the forward part"
        )


def _cycle(problem: Problem, stuck: Ints) -> list[int]:
    """One cycle among the rows that wait for each other."""
    inside = set(stuck.tolist())
    before = {
        int(t): int(s)
        for s, t in zip(problem.source, problem.target)
        if int(s) in inside and int(t) in inside
    }
    row, path = int(stuck[0]), list[int]()
    while row not in path:
        path.append(row)
        row = before[row]
    return path[path.index(row) :][::-1]
