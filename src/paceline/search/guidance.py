"""What the replay of a job tells a searcher: what to propose, and what not to try beside a plan.

Of a plan whose critical path has no communication only what shortens work is tried, and of one
whose path is all communication nothing that changes work alone; operators are not fused where the
rule of op fusion says that no two neighbours gain by it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from paceline.cost import Rates
from paceline.errors import PacelineError
from paceline.graph.condense import Grain
from paceline.predict import Candidates
from paceline.search.fusion import (
    Ready,
    Sync,
    fused_tensors,
    ops_worth_fusing,
    proposed,
    sync_of,
)
from paceline.search.space import Plan, Space
from paceline.search.talking import shares_talking
from paceline.search.trials import Trials
from paceline.strategies import Effect, Strategy, StrategyError, name_of
from paceline.strategies.partition import best_on

LITTLE = 0.01
"""A share of the critical path below which a kind of op is taken not to be on it."""


@dataclass(frozen=True, eq=False)
class Guidance:
    """One job's. Single settings must have been tried before plans are judged by them."""

    space: Space
    trials: Trials
    job: Candidates
    _talking: dict[Plan, float] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def settings(self) -> tuple[Strategy, ...]:
        """Those of the space, and those that dPRO's rules propose: buckets by tensor fusion, and
        k* parts of the largest exchange."""
        told = [each for each in self._proposed() if name_of(type(each)) in self.space.options]
        return tuple(dict.fromkeys([*self.space.settings, *told]))

    def useful(self, plan: Plan) -> Iterator[Strategy]:
        """Settings that act on what the plan's critical path is made of."""
        talks = 0.5 if self.trials.goal.needs_memory else self.talking(plan)
        for setting in self.settings:
            taken = setting not in plan and (setting,) in self.trials.found
            if taken and self._acts(setting, talks) and setting not in self._not_fused:
                yield setting

    def look(self, plans: Sequence[Plan]) -> None:
        """See at once what the critical paths of these are made of."""
        new = [plan for plan in plans if plan not in self._talking]
        if not self.trials.goal.needs_memory:
            self._talking.update(zip(new, shares_talking(self.job, new), strict=True))

    def talking(self, plan: Plan) -> float:
        """The share of the critical path that is communication."""
        self.look([plan])
        return self._talking[plan]

    def _acts(self, setting: Strategy, talks: float) -> bool:
        alone, before = self.trials.found[setting,], self.trials.found[()]
        if talks < LITTLE:
            return alone.batch_work_ns < before.batch_work_ns
        if talks > 1 - LITTLE:
            return (alone.batch_sends, alone.calls) != (before.batch_sends, before.calls)
        return True

    def _proposed(self) -> Iterator[Strategy]:
        if self._ready is not None and self._sync is not None:
            yield from proposed(fused_tensors(self._ready, self._sync))
        if self.job.cluster is not None:
            try:
                yield best_on(self.job.source(Grain.EVENT), self.job.cluster)
            except StrategyError:
                return  # it exchanges nothing that could be cut

    @cached_property
    def _ready(self) -> Ready | None:
        return Ready.of(self.job.timeline(()))

    @cached_property
    def _sync(self) -> Sync | None:
        return sync_of(self.job.timeline(()), self.job.cluster, Rates())

    @cached_property
    def _not_fused(self) -> frozenset[Strategy]:
        """Changes of operators that the rule of op fusion speaks against."""
        return frozenset(
            each for each in self.settings if _fuses_operators(each) and not self._pays(each)
        )

    def _pays(self, setting: Strategy) -> bool:
        """Whether the rule finds two neighbours that gain; where it cannot tell, it may."""
        if self._ready is None or self._sync is None or (setting,) not in self.trials.found:
            return True
        try:
            after = Ready.of(self.job.timeline((setting,)))
        except PacelineError:
            return True
        return after is None or ops_worth_fusing(self._ready, after, self._sync)


def _fuses_operators(setting: Strategy) -> bool:
    return setting.grain is Grain.OP and setting.effect is Effect.EXACT
