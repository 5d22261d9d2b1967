"""`Candidates`: one recorded job, made ready once for the step times of many changes of it.

What does not depend on the change is done beforehand: the typical step, its anchor, the cluster.
A change is made to a single step, which is then repeated: the same step time as `predict` finds,
without its interval and reasons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.graph.condense import STEPS, Grain, alike_steps, first_step, repeated_alone
from paceline.predict.classes import step_ns
from paceline.predict.predicting import placed, typical
from paceline.predict.prediction import Question
from paceline.strategies import Strategy, transformed


@dataclass(frozen=True, eq=False)
class Candidates:
    """A job on a cluster, to be asked for the step time of many plans."""

    graph: Graph
    cluster: Cluster
    question: Question
    grain: Grain = Grain.EVENT

    def step_ns(self, plan: Sequence[Strategy]) -> int:
        """How long a step takes after the plan's changes."""
        changed = transformed(self._source, plan)
        if self._alone and len(np.unique(changed.ops.step)) < 2:
            changed = repeated_alone(changed, STEPS)
        at = placed(changed, self.cluster, self.question)
        return step_ns(at.run(at.prices.dur_ns))

    @cached_property
    def _typical(self) -> Graph:
        return typical(self.graph, self.grain, elsewhere=True)

    @cached_property
    def _alone(self) -> bool:
        """Whether the typical step needs nothing of the one before but its lanes."""
        return alike_steps(self._typical)

    @cached_property
    def _source(self) -> Graph:
        return first_step(self._typical) if self._alone else self._typical
