"""`Source`: a graph whose updates move, with what the change looks up in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.errors import GraphError
from paceline.graph.copying import ragged
from paceline.graph.gradients import told_by
from paceline.graph.graph import Bool, Graph, Int64
from paceline.graph.kinds import NONE, OpKind, Phase
from paceline.graph.late_update.buckets import Buckets
from paceline.graph.links import Links
from paceline.graph.membership import TALKS
from paceline.graph.rank_steps import RankSteps, firsts
from paceline.graph.scaled import works


@dataclass(frozen=True, eq=False)
class Source:
    """What is changed."""

    graph: Graph
    links: Links
    steps: RankSteps
    buckets: Buckets

    @cached_property
    def waits(self) -> Bool:
        """Links by which work waits for gradients."""
        found: Bool = self._brings[self.links.src] != NONE
        return found & ~TALKS[self.graph.ops.kind[self.links.op]]

    @cached_property
    def update(self) -> Int64:
        """The ops of the updates behind the first of these waits."""
        ops, rows = self.graph.ops, np.flatnonzero(self.waits)
        first = np.full(len(self.steps), len(self.graph), np.int64)
        np.minimum.at(first, self._brings[self.links.src[rows]], self.links.op[rows])
        update = np.flatnonzero((ops.phase == Phase.UPDATE) & works(self.graph))
        found: Int64 = update[update >= first[self.steps.of_op[update]]]
        return found

    @cached_property
    def rows(self) -> Int64:
        """Buckets whose update goes into a next step."""
        return np.flatnonzero(self.steps.following[self.buckets.step] != NONE)

    @cached_property
    def use(self) -> Int64:
        """Of these: the next step's first forward op of a layer of theirs, of unknown layers the
        first of all."""
        ops, buckets, steps = self.graph.ops, self.buckets, self.steps
        forward = (ops.phase == Phase.FORWARD) & (ops.kind == OpKind.COMPUTE)
        there = np.flatnonzero(forward)
        number = {text: at for at, text in enumerate(sorted(set().union(*buckets.layers)))}
        of_text = told_by(self.graph, ops.layer[there], number)
        of_text[NONE] = number.get("", NONE)
        layer, far = of_text[ops.layer[there]], len(self.graph)
        first = np.full((len(steps), len(number)), far, np.int64)
        known = np.flatnonzero(layer != NONE)[::-1]
        first[steps.of_op[there[known]], layer[known]] = there[known]
        into = steps.following[buckets.step[self.rows]]
        every = firsts(steps.of_op[there], there, len(steps))[into]
        if (every == NONE).any():
            raise GraphError(
                "a recorded step has no forward pass in which its weights are used, so they cannot "
                "be updated there. Record whole steps with `paceline record`."
            )
        named = _least(first, into, [[number[t] for t in each] for each in buckets.layers],
                       buckets.held[self.rows])  # fmt: skip
        return np.where(named == far, every, named)

    @cached_property
    def _brings(self) -> Int64:
        """By op: the rank's step whose gradients it brings, or NONE."""
        found = np.full(len(self.graph), NONE, np.int64)
        found[self.buckets.brings] = self.buckets.step[self.buckets.of]
        return found


def _least(table: Int64, rows: Int64, columns: Sequence[Sequence[int]], which: Int64) -> Int64:
    """Of each row of the table the least in the columns that are meant."""
    count = np.array([len(each) for each in columns])
    flat = np.array([column for each in columns for column in each], np.int64)
    begin = np.cumsum(count) - count
    chosen = flat[ragged(begin[which], count[which])]
    values = table[np.repeat(rows, count[which]), chosen]
    found: Int64 = np.minimum.reduceat(values, np.cumsum(count[which]) - count[which])
    return found
