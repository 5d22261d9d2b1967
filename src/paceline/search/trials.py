"""`Trials`: the plans that a search has tried, and what they cost.

Searchers propose plans here, many at a time. A plan is scored once; when the time is spent the
search ends where it stands, and what was tried stays.
"""

import time
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from paceline.search.goal import Goal
from paceline.search.score import Refused, Score
from paceline.search.space import Plan

Scored = tuple[Plan, Score | Refused]
Scores = Callable[[Sequence[Plan]], Iterator[Scored]]
"""Replays plans, here or elsewhere, and yields each as it is done, in any order."""


class Stopped(Exception):
    """Whoever watches a search has seen enough. It never leaves `search`."""


class BudgetSpent(Exception):
    """The time of a search is over. It never leaves `search`."""


@dataclass(eq=False)
class Trials:
    """One search's ledger."""

    goal: Goal
    scores: Scores
    kept: Callable[[Scored], None] | None = None  # told of each new one
    watch: "Callable[[Trials], None] | None" = None  # the same, and of all before
    found: dict[Plan, Score] = field(default_factory=dict)
    refused: dict[Plan, str] = field(default_factory=dict)
    begun_s: float = field(default_factory=time.monotonic)
    _order: dict[Plan, "_Place"] = field(default_factory=dict, repr=False)
    _ranked: "list[tuple[_Place, Plan]]" = field(default_factory=list, repr=False)

    @property
    def tried(self) -> int:
        return len(self.found) + len(self.refused)

    @property
    def left_s(self) -> float:
        return self.goal.budget_s - (time.monotonic() - self.begun_s)

    def ask(self, plans: Iterable[Plan]) -> list[Score | None]:
        """The score of each plan; None where the job does not take it."""
        wanted = tuple(plans)
        new = [plan for plan in dict.fromkeys(wanted) if not self._known(plan)]
        if new and self.tried:
            self._require_time()
        for scored in self.scores(new) if new else ():
            self.note(scored)
            if self.kept is not None:
                self.kept(scored)
            if self.watch is not None:
                self.watch(self)
            self._require_time()
        return [self.found.get(plan) for plan in wanted]

    def one(self, plan: Plan) -> Score | None:
        return self.ask([plan])[0]

    def known(self, plan: Plan) -> Score | Refused | None:
        """What was found of a plan; None where it was not tried."""
        if plan in self.refused:
            return Refused(self.refused[plan])
        return self.found.get(plan)

    def note(self, scored: Scored) -> None:
        plan, score = scored
        if isinstance(score, Refused):
            self.refused[plan] = score.reason
        else:
            self.found[plan] = score
            if plan not in self._order:
                self._order[plan] = self.cost(plan), str(plan)
                insort(self._ranked, (self._order[plan], plan), key=itemgetter(0))

    def cost(self, plan: Plan) -> tuple[float, ...]:
        """Of a plan that was tried; the shorter plan of two that cost the same."""
        return (*self.goal.cost(plan, self.found[plan]), float(len(plan)))

    def ranked(self, plans: Iterable[Plan] | None = None) -> list[Plan]:
        """Those that the job takes, the best first."""
        if plans is None:
            return [plan for _, plan in self._ranked]
        taken = {plan for plan in plans if plan in self.found}
        return sorted(taken, key=self._order.__getitem__)

    def _known(self, plan: Plan) -> bool:
        return plan in self.found or plan in self.refused

    def _require_time(self) -> None:
        if self.left_s <= 0:
            raise BudgetSpent


_Place = tuple[tuple[float, ...], str]
"""Of a plan among all: by its cost, then by its name."""
