"""`Candidates`: one recorded job, made ready once for the step times of many plans.

What does not depend on the plan is done beforehand: the typical step at the grain that the plan
needs, its anchor, the cluster. Changes are made to a single step, which is then repeated (unless a
change has done that), and plans that begin alike share what they begin with. The same step time as
`predict` finds, without its interval and reasons.

Seen coarsely, like ranks stand once (`graph.fold`), and work is merged as soon as no change behind
asks for more detail. The times are the same wherever ranks that are alike stay alike, and rounding
does not decide; so a search looks coarsely, and `whole` has the last word.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.graph.condense import STEPS, Grain, alike_steps, coarser, first_step, repeated_alone
from paceline.graph.folding import fold
from paceline.graph.graph import MemoryEvents
from paceline.predict.classes import step_ns
from paceline.predict.predicting import Placed, finest, informed, placed, typical
from paceline.predict.prediction import Question
from paceline.predict.pulse import brought, moved
from paceline.replay import Timeline
from paceline.strategies import Strategy, transformed
from paceline.strategies.strategy import require_order

_KEPT_OPS = 2_000_000
"""Of changed graphs that are kept for plans which begin alike, ops in all: some 300 MB."""

_Plan = tuple[Strategy, ...]


@dataclass(frozen=True, eq=False)
class Candidates:
    """A job on a cluster, or as recorded without one, to be asked for the steps of many plans."""

    graph: Graph
    cluster: Cluster | None
    question: Question
    coarse: bool = False
    memory: bool = True  # whether memory is asked for; without, changes carry none along
    _sources: dict[Grain, Graph] = field(default_factory=dict, init=False, repr=False)
    _kept: "OrderedDict[tuple[_Plan, Grain], Graph]" = field(
        default_factory=OrderedDict, init=False, repr=False
    )

    def step_ns(self, plan: Sequence[Strategy]) -> int:
        """How long a step takes after the plan's changes."""
        return step_ns(self.timeline(plan))

    def timeline(self, plan: Sequence[Strategy]) -> Timeline:
        """When each op of the changed steps runs."""
        at = self.placed(plan)
        return at.run(at.prices.dur_ns)

    def placed(self, plan: Sequence[Strategy]) -> Placed:
        return placed(self.changed(plan), self.cluster, self.question, plan)

    def changed(self, plan: Sequence[Strategy]) -> Graph:
        """The typical steps after the plan's changes, which are yet to be priced."""
        require_order(plan)
        made = self._made(tuple(plan), Grain.EVENT if self.coarse else finest(plan))
        if not self._alone:
            return made
        if made.facts.steps_overlap:  # no step of it stands alone
            return transformed(self._typical(finest(plan)), plan)
        alone = made.ops.step.min() == made.ops.step.max()
        return repeated_alone(made, STEPS) if alone else made

    def make_ready(self) -> None:
        """What plans share, before this is handed to workers that would each make it."""
        for grain in Grain:
            self.source(grain)

    @cached_property
    def whole(self) -> "Candidates":
        """The same job with every rank and all detail that a plan needs."""
        return replace(self.remembering, coarse=False) if self.coarse else self.remembering

    @cached_property
    def remembering(self) -> "Candidates":
        """The same, with what ops allocate."""
        return self if self.memory else replace(self, graph=self._informed, memory=True)

    @property
    def world_size(self) -> int:
        return self.graph.world_size

    def source(self, grain: Grain) -> Graph:
        """The single step that changes are made to, where that will do; else the typical steps."""
        if grain not in self._sources:
            step = self._typical(grain)
            step = first_step(step) if self._alone else step
            step = step if self.memory else replace(step, memory=MemoryEvents.none())
            self._sources[grain] = fold(step).graph if self.coarse and self._folds(step) else step
        return self._sources[grain]

    def _typical(self, grain: Grain) -> Graph:
        step = typical(self._informed, grain, elsewhere=self.cluster is not None)
        return brought(step, moved(step.facts.pulse, self.question.pulse))

    @cached_property
    def _informed(self) -> Graph:
        return informed(self.graph, self.question)

    @cached_property
    def _alone(self) -> bool:
        """Whether the typical step needs nothing of the one before but its lanes."""
        step = self._typical(Grain.EVENT)
        return not step.facts.steps_overlap and alike_steps(step)

    def _folds(self, step: Graph) -> bool:
        """Whether like ranks can stand once: they share no cores, their hosts are alike, and all
        of them are in the graph."""
        if self.question.machine is not None or self.question.shaped_links:
            return False
        hosts = self.cluster.hosts if self.cluster is not None else ()
        alike = len({(host.device, host.cpus) for host in hosts}) <= 1
        return alike and len(np.unique(step.ops.rank)) == len(step.ranks) > 1

    def _made(self, plan: _Plan, grain: Grain) -> Graph:
        """After the plan's changes, at that grain."""
        if not plan:
            return self.source(grain)
        if (plan, grain) in self._kept:
            self._kept.move_to_end((plan, grain))
            return self._kept[plan, grain]
        *begun, last = plan
        needed = min(last.grain, grain, key=list(Grain).index)
        made = last.transform(self._made(tuple(begun), needed))
        if needed is not grain:
            made = coarser(made, grain)[0]
        self._keep((plan, grain), made)
        return made

    def _keep(self, key: tuple[_Plan, Grain], made: Graph) -> None:
        self._kept[key] = made
        most = max(1, _KEPT_OPS // max(1, len(made)))
        while len(self._kept) > most:
            self._kept.popitem(last=False)
