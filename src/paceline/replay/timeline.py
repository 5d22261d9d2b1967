"""`Timeline`: when each op of a graph runs, and the questions one can ask of it."""

from dataclasses import dataclass
from functools import cached_property

from paceline.graph import Graph
from paceline.graph.graph import Int64
from paceline.replay.columns import Columns


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each op arrives (`ready_ns`), starts and ends, aligned with the graph's rows.

    `start_ns - ready_ns` is waiting, for partners or lanes to drain; `end_ns - start_ns` is work.
    """

    graph: Graph
    dur_ns: Int64  # the durations that were replayed
    columns: Columns

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
