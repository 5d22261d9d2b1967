"""`Trials`: the plans that a search has tried, and what they cost.

Searchers propose plans here, many at a time. A plan is scored once; when the time is spent the
search ends where it stands, and what was tried stays.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from paceline.search.goal import Goal
from paceline.search.score import Refused, Score
from paceline.search.space import Plan

Scores = Callable[[Sequence[Plan]], Sequence[Score | Refused]]
BATCH = 16
"""Plans between two looks at the clock: some 40 ms of one core."""


class BudgetSpent(Exception):
    """The time of a search is over. It never leaves `search`."""


@dataclass(eq=False)
class Trials:
    """One search's ledger. `scores` replays plans, here or elsewhere."""

    goal: Goal
    scores: Scores
    batch: int = BATCH
    kept: Callable[[Plan, Score | Refused], None] | None = None  # told of each new one
    found: dict[Plan, Score] = field(default_factory=dict)
    refused: dict[Plan, str] = field(default_factory=dict)
    begun_s: float = field(default_factory=time.monotonic)

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
        for at in range(0, len(new), self.batch):
            if self.tried and self.left_s <= 0:
                raise BudgetSpent
            part = new[at : at + self.batch]
            for plan, score in zip(part, self.scores(part), strict=True):
                self.note(plan, score)
                if self.kept is not None:
                    self.kept(plan, score)
        return [self.found.get(plan) for plan in wanted]

    def one(self, plan: Plan) -> Score | None:
        return self.ask([plan])[0]

    def note(self, plan: Plan, score: Score | Refused) -> None:
        if isinstance(score, Refused):
            self.refused[plan] = score.reason
        else:
            self.found[plan] = score

    def cost(self, plan: Plan) -> tuple[float, ...]:
        """Of a plan that was tried; the shorter plan of two that cost the same."""
        return (*self.goal.cost(self.found[plan]), float(len(plan)))

    def best(self) -> Plan:
        return min(self.found, key=lambda plan: (self.cost(plan), str(plan)))

    def _known(self, plan: Plan) -> bool:
        return plan in self.found or plan in self.refused
