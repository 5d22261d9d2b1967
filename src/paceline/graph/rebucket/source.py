"""`Source`: a graph whose buckets change, with what the change looks up in it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.graph.gradients import Gradients
from paceline.graph.graph import Graph, Int64
from paceline.graph.hand_over import HandOver
from paceline.graph.kinds import NONE, DepKind, LaneKind
from paceline.graph.links import Links
from paceline.graph.rank_steps import RankSteps, firsts


@dataclass(frozen=True, eq=False)
class Source:
    """What is changed."""

    graph: Graph
    links: Links
    found: Gradients
    old: Int64  # the all-reduces of buckets
    steps: RankSteps

    @cached_property
    def first(self) -> Int64:
        """By rank's step: the first of the old all-reduces, which stands for all; or NONE."""
        return firsts(self.steps.of_op[self.old], self.old, len(self.steps))

    @cached_property
    def whose(self) -> Int64:
        """By op: the rank's step whose exchange it is a part of, or NONE."""
        goes = self.handed.with_delays(self.old)
        return np.where(goes, self.steps.of_op, NONE)

    @cached_property
    def handed(self) -> HandOver:
        return HandOver(self.graph, self.links)

    @cached_property
    def ready(self) -> Int64:
        """By rank's step and parameter: the op that readies the gradient, the last where several
        add to it; or NONE."""
        found = np.full((len(self.steps), len(self.graph.facts.parameters)), NONE, np.int64)
        found[self.steps.of_op[self.found.op], self.found.parameter] = self.found.op
        return found

    def launcher(self, op: Int64) -> Int64:
        """The ops themselves, and of kernels their launches."""
        graph, launch = self.graph, self.links.where(self.links.kind == DepKind.LAUNCH)
        found = firsts(launch.op, launch.src, len(graph))
        on_stream = graph.lanes.kind[graph.ops.lane[op]] == LaneKind.STREAM
        return np.where(on_stream & (found[op] != NONE), found[op], op)
