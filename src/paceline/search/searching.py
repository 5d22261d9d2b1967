"""`search`: which plan makes this job best, within what the goal allows."""

import time
from collections.abc import Callable, Mapping

from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.graph.condense import Grain
from paceline.predict import Candidates, Question
from paceline.search.errors import SearchError
from paceline.search.exhaustive import exhaustive
from paceline.search.found import Candidate, Found
from paceline.search.goal import Goal, least_exact
from paceline.search.guided import guided
from paceline.search.pareto import pareto
from paceline.search.score import Judge, Refused, Score
from paceline.search.space import Plan, Space, space_of
from paceline.search.trials import BudgetSpent, Trials
from paceline.strategies import Strategy

Searcher = Callable[[Space, Trials], None]
SEARCHERS: Mapping[str, Searcher] = {"exhaustive": exhaustive, "guided": guided}


def search(
    graph: Graph,
    cluster: Cluster | None,
    question: Question,
    goal: Goal,
    searcher: str = "guided",
    live_only: bool = True,
) -> Found:
    """The best plan found within the budget. `live_only`: of strategies that `apply` can do."""
    begun = time.monotonic()
    if searcher not in SEARCHERS:
        raise SearchError(f"no searcher is called {searcher!r}; there are {', '.join(SEARCHERS)}")
    judge = Judge(Candidates(graph, cluster, question), goal.needs_memory)
    space = space_of(judge.candidates.typical(Grain.OP), goal, live_only=live_only)
    trials = Trials(goal, lambda plans: [judge.score(plan) for plan in plans], begun_s=begun)
    ended = _run(SEARCHERS[searcher], space, trials)
    full = Judge(judge.candidates, memory=True)
    told = {plan: _told(full, plan) for plan in ((), trials.best(), *pareto(trials.found))}
    return Found(
        best=told[trials.best()],
        unchanged=told[()],
        pareto=tuple(told[plan] for plan in pareto(trials.found)),
        tried=trials.tried,
        seconds=time.monotonic() - begun,
        refused=(*space.refused, *_refused_alone(trials)),
        ended=ended,
    )


def _run(searcher: Searcher, space: Space, trials: Trials) -> str:
    """How the search ended. The job as it is comes first, whatever the searcher does."""
    if trials.one(()) is None:
        raise SearchError(f"the job as it is cannot be replayed: {trials.refused[()]}")
    try:
        searcher(space, trials)
    except BudgetSpent:
        return "budget"
    except KeyboardInterrupt:
        return "interrupted"
    return "done"


def _told(judge: Judge, plan: Plan) -> Candidate:
    score = judge.score(plan)
    if isinstance(score, Refused):  # it was not when it was tried
        raise SearchError(f"{plan} was tried, and is now refused: {score.reason}")
    return candidate(plan, score)


def candidate(plan: Plan, score: Score, reasons: tuple[str, ...] = ()) -> Candidate:
    effect = least_exact([each.effect for each in plan])
    return Candidate(
        plan, score.step_ns, score.batch_ns, score.memory_bytes, score.sends, effect, reasons
    )


def _refused_alone(trials: Trials) -> tuple[tuple[Strategy, str], ...]:
    return tuple((plan[0], why) for plan, why in trials.refused.items() if len(plan) == 1)
