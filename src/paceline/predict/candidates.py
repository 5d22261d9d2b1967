"""`Candidates`: one recorded job, made ready once for the step times of many plans.

What does not depend on the plan is done beforehand: the typical step at the grain that the plan
needs, its anchor, the cluster. Changes are made to a single step, which is then repeated (unless a
change has done that), and plans that begin alike share what they begin with. The same step time as
`predict` finds, without its interval and reasons.

Seen coarsely, like ranks stand once (`graph.fold`), unless a change tells them apart, and work is
merged as soon as no change behind asks for more detail, while the step stands alone. The times are
the same wherever rounding does not decide; so a search looks coarsely, and `whole` has the last
word.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from paceline.cluster import Cluster
from paceline.errors import PacelineError
from paceline.graph import Graph
from paceline.graph.condense import STEPS, Grain, alike_steps, coarser, first_step, repeated_alone
from paceline.graph.folding import fold
from paceline.graph.graph import MemoryEvents
from paceline.predict.classes import step_ns
from paceline.predict.predicting import (
    Placed,
    as_asked,
    finest,
    informed,
    placed,
    predicted,
    typical,
    waits,
)
from paceline.predict.prediction import Prediction, Question
from paceline.predict.slowed import relieved
from paceline.replay import Timeline
from paceline.strategies import Strategy, transformed
from paceline.strategies.strategy import require_order

_Plan = tuple[Strategy, ...]


@dataclass(frozen=True, eq=False)
class Candidates:
    """A job on a cluster, or as recorded without one, to be asked for the steps of many plans."""

    graph: Graph
    cluster: Cluster | None
    question: Question
    coarse: bool = False
    memory: bool = True  # whether more than step times is asked for; else changes carry no more
    every_rank: bool = False  # seen coarsely: whether ranks that are alike stand for themselves
    kept_ops: int = 2_000_000  # of changed graphs kept for plans that begin alike: some 300 MB
    _sources: dict[Grain, "_Source"] = field(default_factory=dict, init=False, repr=False)
    _kept: "OrderedDict[_Change, _Made]" = field(
        default_factory=OrderedDict, init=False, repr=False
    )
    _placed: "dict[_Plan, Placed]" = field(default_factory=dict, init=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """To other processes; graphs have other identities there, so what was changed stays."""
        mine = {name: value for name, value in vars(self).items() if name not in _OTHERS}
        return {**mine, "_kept": OrderedDict(), "_placed": {}}

    def step_ns(self, plan: Sequence[Strategy]) -> int:
        """How long a step takes after the plan's changes."""
        return step_ns(self.timeline(plan))

    def timeline(self, plan: Sequence[Strategy]) -> Timeline:
        """When each op of the changed steps runs."""
        at = self.placed(plan)
        return at.run(at.prices.dur_ns)

    def placed(self, plan: Sequence[Strategy]) -> Placed:
        """The last one is kept: who has seen how a plan runs often asks for more of it."""
        asked = tuple(plan)
        if asked not in self._placed:
            self._placed.clear()
            self._placed[asked] = placed(self.changed(plan), self.cluster, self.question, plan)
        return self._placed[asked]

    def prediction(self, plan: Sequence[Strategy]) -> Prediction:
        """The same as `predict` says of it, less what its costs rest on, and of changes that were
        made before."""
        return predicted(self.remembering.placed(plan), plan, self.question)

    def changed(self, plan: Sequence[Strategy]) -> Graph:
        """The typical steps after the plan's changes, which are yet to be priced."""
        made, times = self.once(plan)
        return repeated_alone(made, times) if times > 1 else made

    def begun(self, plan: Sequence[Strategy]) -> "Begun":
        """The same before it is repeated; its last changes, as far as they may be made to many jobs
        at once, are yet to be made."""
        require_order(plan)
        rest = tuple(reversed([*takewhile(lambda change: change.at_once, reversed(plan))]))
        if not rest or self.cluster is None or not (self.coarse and self._alone):
            return Begun(*self.once(plan))
        if not self._same_within_classes(plan):
            return self.unfolded.begun(plan)
        made = self._made(tuple(plan[: -len(rest)]), finest(rest))
        if made.facts.steps_overlap or self._repeated(made):
            return Begun(*self.once(plan))
        return Begun(*self._known_after(made, rest))

    def _known_after(self, made: Graph, rest: _Plan) -> tuple[Graph, int, _Plan]:
        """The first of these changes as it was made before, if it was and left a single step."""
        key = (id(made), rest[0])
        known = self._kept[key].after if key in self._kept else None
        if len(rest) > 1 or not isinstance(known, Graph) or self._repeated(known):
            return made, STEPS, rest
        return known, STEPS, ()

    def once(self, plan: Sequence[Strategy]) -> tuple[Graph, int]:
        """The same before it is repeated, and how many times in a row it is replayed."""
        require_order(plan)
        if not self._same_within_classes(plan):
            return self.unfolded.once(plan)
        made = self._made(tuple(plan), Grain.EVENT if self.coarse else finest(plan))
        if not self._alone:
            return made, 1
        if made.facts.steps_overlap:  # no step of it stands alone
            return transformed(self._typical(finest(plan)), self._priced(plan)), 1
        return made, STEPS if made.ops.step.min() == made.ops.step.max() else 1

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

    @cached_property
    def unfolded(self) -> "Candidates":
        """The same with every rank, for changes that tell like ranks apart."""
        folded = self.coarse and not self.every_rank
        return replace(self, graph=self._informed, every_rank=True) if folded else self

    @property
    def world_size(self) -> int:
        return self.graph.world_size

    def source(self, grain: Grain) -> Graph:
        """The single step that changes are made to, where that will do; else the typical steps."""
        return self._source(grain).graph

    def _source(self, grain: Grain) -> "_Source":
        if grain not in self._sources:
            self._sources[grain] = self._made_source(grain)
        return self._sources[grain]

    def _made_source(self, grain: Grain) -> "_Source":
        if not self.memory:
            return self.remembering._source(grain).bare()
        step = self._typical(grain)
        step = first_step(step) if self._alone else step
        return _Source.folded(step) if self._folds(step) else _Source(step)

    def _same_within_classes(self, plan: Sequence[Strategy]) -> bool:
        told = [change for change in plan if change.by_rank]
        classes = self._source(finest(plan)).classes if told and self.coarse else ()
        return not classes or all(change.same_within(classes) for change in told)

    def _typical(self, grain: Grain) -> Graph:
        elsewhere = self.cluster is not None
        step = typical(self._informed, grain, elsewhere=elsewhere, waits=waits(self.question))
        step = relieved(step, self._informed, self.question)
        return as_asked(step, self.question)

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
        if self.every_rank or not self.coarse or self.question.shaped_links:
            return False
        if self.question.machine is not None:
            return False
        hosts = self.cluster.hosts if self.cluster is not None else ()
        alike = len({(host.device, host.cpus) for host in hosts}) <= 1
        return alike and len(np.unique(step.ops.rank)) == len(step.ranks) > 1

    def refusal(self, change: Strategy) -> str | None:
        """Why the job does not take this change by itself, or None where it does. Asked of the job
        as it is replayed, so that the change is made once; of the job with its memory where it is
        memory that the change frees."""
        asked = self.remembering if change.frees_memory else self
        try:
            asked._require_taken(change)
        except PacelineError as error:
            return str(error)
        return None

    def _require_taken(self, change: Strategy) -> None:
        """At the change's own grain: merging what it made refuses nothing."""
        asked = self if self._same_within_classes((change,)) else self.unfolded
        if asked._made((change,), change.grain).facts.steps_overlap:
            asked.once((change,))

    def _made(self, plan: _Plan, grain: Grain) -> Graph:
        """After the plan's changes, at that grain."""
        if not plan:
            return self.source(grain)
        *begun, last = plan
        needed = min(last.grain, grain, key=list(Grain).index)
        made = self._kept_made(self._made(tuple(begun), needed), last)
        if needed is grain or (needed is Grain.LAYER and self._repeated(made)):
            return made
        return self._kept_made(made, grain)

    def _repeated(self, made: Graph) -> bool:
        """Whether a change has repeated the step, so that merging it takes longer than it saves."""
        return self._alone and bool(made.ops.step[0] != made.ops.step[-1])

    def _kept_made(self, before: Graph, change: Strategy | Grain) -> Graph:
        key = (id(before), change)
        if key in self._kept:
            self._kept.move_to_end(key)
        else:
            how = change if isinstance(change, Grain) else self._priced((change,))[0]
            self._keep(key, _Made.of(before, how))
        made = self._kept[key].after
        if isinstance(made, PacelineError):
            raise made.with_traceback(None)
        return made

    def _priced(self, plan: Sequence[Strategy]) -> _Plan:
        return tuple(change.priced_by(self.question.constants) for change in plan)

    def _keep(self, change: "_Change", made: "_Made") -> None:
        self._kept[change] = made
        size = 0 if isinstance(made.after, PacelineError) else len(made.after)
        most = max(1, self.kept_ops // max(1, size))
        while len(self._kept) > most:
            self._kept.popitem(last=False)


@dataclass(frozen=True, eq=False)
class Begun:
    """A plan's job, all but ready to be replayed."""

    graph: Graph
    times: int  # that it stands in a row
    rest: _Plan = ()  # the plan's last changes, which are yet to be made


_OTHERS = frozenset({"remembering", "unfolded", "whole"})
"""Properties that hold the same job seen otherwise."""


@dataclass(frozen=True, eq=False)
class _Source:
    """What changes are made to."""

    graph: Graph
    classes: tuple[int, ...] = ()  # of each rank, where like ones stand once

    @staticmethod
    def folded(step: Graph) -> "_Source":
        found = fold(step)
        return _Source(found.graph, tuple(found.class_of_rank.tolist()))

    def bare(self) -> "_Source":
        """Without what tells of memory and of intervals, which no step time needs."""
        graph = replace(self.graph, memory=MemoryEvents.none(), spread=None)
        return replace(self, graph=graph)


_Change = tuple[int, Strategy | Grain]
"""What was changed (by identity: plans that came to one graph go on together), and how: by a
strategy, or merged to a grain."""


@dataclass(frozen=True, eq=False)
class _Made:
    """What a change made of a graph, or why it could not."""

    before: Graph  # kept, so that no other graph has its identity
    after: Graph | PacelineError

    @staticmethod
    def of(before: Graph, change: Strategy | Grain) -> "_Made":
        if isinstance(change, Grain):
            return _Made(before, coarser(before, change)[0])
        try:
            return _Made(before, change.transform(before))
        except PacelineError as error:
            return _Made(before, error)
