"""`Candidates`: one recorded job, made ready once for the step times of many plans.

What does not depend on the plan is done beforehand: the typical step at the grain that the plan
needs, its anchor, the cluster. Changes are made to a single step, which is then repeated (unless a
change has done that), and plans that begin alike share what they begin with. The same step time as
`predict` finds, without its interval and reasons.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.graph.condense import STEPS, Grain, alike_steps, first_step, repeated_alone
from paceline.predict.classes import step_ns
from paceline.predict.predicting import finest, informed, placed, typical
from paceline.predict.prediction import Question
from paceline.predict.pulse import brought, moved
from paceline.replay import Timeline
from paceline.strategies import Strategy
from paceline.strategies.strategy import require_order

_KEPT_OPS = 2_000_000
"""Of changed graphs that are kept for plans which begin alike, ops in all: some 300 MB."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """A job on a cluster, or as recorded without one, to be asked for the steps of many plans."""

    graph: Graph
    cluster: Cluster | None
    question: Question
    _sources: "dict[Grain, _Source]" = field(default_factory=dict, init=False, repr=False)

    def step_ns(self, plan: Sequence[Strategy]) -> int:
        """How long a step takes after the plan's changes."""
        return step_ns(self.timeline(plan))

    def timeline(self, plan: Sequence[Strategy]) -> Timeline:
        """When each op of the changed steps runs."""
        at = placed(self.changed(plan), self.cluster, self.question)
        return at.run(at.prices.dur_ns)

    def changed(self, plan: Sequence[Strategy]) -> Graph:
        """The typical steps after the plan's changes, which are yet to be priced."""
        require_order(plan)
        return self._source(finest(plan)).changed(tuple(plan))

    def typical(self, grain: Grain) -> Graph:
        """What changes of that grain are made to."""
        return self._source(grain).typical

    def _source(self, grain: Grain) -> "_Source":
        if grain not in self._sources:
            step = typical(self._informed, grain, elsewhere=self.cluster is not None)
            by = moved(step.facts.pulse, self.question.pulse)
            self._sources[grain] = _Source(brought(step, by))
        return self._sources[grain]

    @cached_property
    def _informed(self) -> Graph:
        return informed(self.graph, self.question)


@dataclass(frozen=True, eq=False)
class _Source:
    """The typical step at one grain, and what beginnings of plans have made of it."""

    typical: Graph
    _kept: "OrderedDict[tuple[Strategy, ...], Graph]" = field(default_factory=OrderedDict)

    def changed(self, plan: tuple[Strategy, ...]) -> Graph:
        made = self._begun(plan)
        if self._alone and made.ops.step.min() == made.ops.step.max():
            made = repeated_alone(made, STEPS)
        return made

    def _begun(self, plan: tuple[Strategy, ...]) -> Graph:
        """After the plan's changes, of the single step where that will do."""
        if not plan:
            return self._first
        if plan in self._kept:
            self._kept.move_to_end(plan)
            return self._kept[plan]
        made = plan[-1].transform(self._begun(plan[:-1]))
        self._keep(plan, made)
        return made

    def _keep(self, plan: tuple[Strategy, ...], made: Graph) -> None:
        most = _KEPT_OPS // max(1, len(self._first))
        self._kept[plan] = made
        while len(self._kept) > most:
            self._kept.popitem(last=False)

    @cached_property
    def _alone(self) -> bool:
        """Whether the typical step needs nothing of the one before but its lanes."""
        return not self.typical.facts.steps_overlap and alike_steps(self.typical)

    @cached_property
    def _first(self) -> Graph:
        return first_step(self.typical) if self._alone else self.typical
