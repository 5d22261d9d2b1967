"""`Timeline`: when each op of a graph runs, and the questions one can ask of it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.graph import NONE, FoldedGraph, Graph
from paceline.graph.cycles import lane_previous
from paceline.graph.distinct import blocks
from paceline.graph.graph import Int32, Int64
from paceline.notebook import InNotebook
from paceline.replay.breakdown import Breakdown, breakdown
from paceline.replay.columns import Columns
from paceline.replay.memory import MemoryCurve, memory_curves
from paceline.replay.paths import CriticalPath, critical_path
from paceline.replay.program import program
from paceline.replay.slack import slack


@dataclass(frozen=True, eq=False)
class Occupancy:
    """How long each lane worked and waited, in ns, one row a lane of the graph."""

    work_ns: Int64
    waiting_ns: Int64


@dataclass(frozen=True, eq=False)
class Timeline(InNotebook):
    """When each op arrives (`ready_ns`), starts and ends, aligned with the graph's rows.

    `start_ns - ready_ns` is waiting, for partners or lanes to drain; `end_ns - start_ns` is work.
    """

    graph: Graph
    dur_ns: Int64  # the durations that were replayed
    columns: Columns
    folded: FoldedGraph | None = None  # set where `graph` has one rank for each class of ranks

    @property
    def ready_ns(self) -> Int64:
        return self.columns.ready_ns

    @property
    def start_ns(self) -> Int64:
        return self.columns.start_ns

    @property
    def end_ns(self) -> Int64:
        return self.columns.end_ns

    @cached_property
    def step_ns(self) -> int:
        """From the first arrival, at 0, to the last end."""
        return int(self.end_ns.max())

    @cached_property
    def critical_path(self) -> CriticalPath:
        return critical_path(self)

    @cached_property
    def slack_ns(self) -> Int64:
        """How much later each op could end without making the step longer."""
        return slack(self)

    @cached_property
    def breakdown(self) -> Breakdown:
        return breakdown(self)

    @cached_property
    def memory(self) -> tuple[MemoryCurve, ...]:
        """One curve for each device of the graph."""
        return memory_curves(self)

    @cached_property
    def occupancy(self) -> Occupancy:
        lane, count = self.graph.ops.lane, len(self.graph.lanes)
        work, waiting = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for rows in blocks(len(lane)):
            start = self.start_ns[rows]
            np.add.at(work, lane[rows], self.end_ns[rows] - start)
            np.add.at(waiting, lane[rows], start - self.ready_ns[rows])
        return Occupancy(work, waiting)

    @cached_property
    def previous(self) -> Int32:
        """The op that each op's lane served just before it, or NONE."""
        if self.columns.previous is not None:
            return self.columns.previous
        return lane_previous(self.graph)

    @cached_property
    def order(self) -> Int32:
        """All ops, each after everything that it waited for."""
        if self.columns.order is not None:
            return self.columns.order
        found: Int32 = program(self.graph).order
        return found

    def members_of(self, instance: int) -> Int64:
        """The ops of an instance, ascending."""
        order, sorted_ids = self._instances
        borders = np.array([instance, instance + 1], sorted_ids.dtype)  # else all are converted
        first, last = np.searchsorted(sorted_ids, borders)
        return order[first:last]

    @cached_property
    def _instances(self) -> tuple[Int64, Int32]:
        instance = self.graph.ops.instance
        members = np.flatnonzero(instance != NONE)
        order = members[np.argsort(instance[members], kind="stable")]
        return order, instance[order]
