"""`search`: which plan makes this job best, within what the goal allows."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.cluster import Cluster
from paceline.graph import Graph
from paceline.predict import Candidates, Question
from paceline.search.errors import SearchError
from paceline.search.evolutionary import evolutionary
from paceline.search.exhaustive import exhaustive
from paceline.search.found import Candidate, Ended, Found
from paceline.search.goal import Goal
from paceline.search.guided import guided
from paceline.search.judge import Judge
from paceline.search.notebook import noted
from paceline.search.optuna_search import optuna_search
from paceline.search.pareto import pareto
from paceline.search.score import Score
from paceline.search.scoring import scoring
from paceline.search.settle import candidate, settled
from paceline.search.space import Plan, Space, space_of
from paceline.search.trials import BudgetSpent, Stopped, Trials
from paceline.strategies import Strategy, kind_of, known, strategy

Searcher = Callable[[Space, Trials, Candidates], None]
SEARCHERS: Mapping[str, Searcher] = {
    "guided": guided,
    "evolutionary": evolutionary,
    "optuna": optuna_search,
    "exhaustive": exhaustive,
}


@dataclass(frozen=True)
class SearchPlace:
    """Where a search runs, and where it keeps what it tried."""

    on: str = ""  # this process; else processes[:N], dask://[HOST:PORT] or ray://[HOST:PORT]
    tried: Path | None = None  # a file to go on from, made where there is none
    watch: Callable[[Trials], None] | None = None  # told after each new one; may raise Stopped


def search(
    graph: Graph,
    cluster: Cluster | None,
    question: Question,
    goal: Goal,
    searcher: str = "guided",
    live_only: bool = True,
    place: SearchPlace | None = None,
) -> Found:
    """The best plan found within the budget. `live_only`: of strategies that `apply` can do."""
    begun, place = time.monotonic(), place or SearchPlace()
    if searcher not in SEARCHERS:
        raise SearchError(f"no searcher is called {searcher!r}; there are {', '.join(SEARCHERS)}")
    question = replace(question, draws=0)
    job = Candidates(graph, cluster, question, coarse=True, memory=goal.needs_memory)
    judge = Judge(job)
    space = space_of(job, goal, live_only=live_only, refuses=_refused_on(cluster))
    with scoring(place.on, judge) as scores, noted(place.tried, judge) as notes:
        trials = Trials(goal, scores, notes.add, place.watch, begun_s=begun)
        for plan, score in notes.before:
            trials.note((plan, score))
        ended = _run(SEARCHERS[searcher], space, trials, job)
    return _found(trials, judge, space, ended)


def _run(searcher: Searcher, space: Space, trials: Trials, job: Candidates) -> Ended:
    """The job as it is comes first, whatever the searcher does."""
    try:
        if trials.one(()) is None:
            raise SearchError(f"the job as it is cannot be replayed: {trials.refused[()]}")
        searcher(space, trials, job)
    except BudgetSpent:
        return Ended.BUDGET
    except (KeyboardInterrupt, Stopped):
        return Ended.INTERRUPTED
    return Ended.DONE


def _found(trials: Trials, judge: Judge, space: Space, ended: Ended) -> Found:
    best = settled(trials, judge)
    return Found(
        best=best,
        unchanged=_told(trials.goal, judge.exact, ()),
        pareto=_front(trials, best, judge.remembering),
        tried=trials.tried,
        seconds=time.monotonic() - trials.begun_s,
        refused=(*space.refused, *_refused_alone(trials)),
        ended=ended,
        sharded=_sharded(trials.goal, judge.remembering),
    )


def _sharded(goal: Goal, judge: Judge) -> Candidate | None:
    """The job under FSDP2: beside what was searched, whatever that was."""
    plan = (strategy("fully_sharded"),)
    score = judge.score(plan)
    return candidate(goal, plan, score) if isinstance(score, Score) else None


def _front(trials: Trials, best: Candidate, judge: Judge) -> tuple[Candidate, ...]:
    """As plans look coarsely; the best as it is."""
    others = [_told(trials.goal, judge, plan) for plan in pareto(trials.found) if plan != best.plan]
    return tuple(sorted([best, *others], key=lambda each: each.batch_ns))


def _told(goal: Goal, judge: Judge, plan: Plan) -> Candidate:
    score = judge.score(plan)
    assert isinstance(score, Score), "it could be replayed when it was tried"
    return candidate(goal, plan, score)


def _refused_alone(trials: Trials) -> tuple[tuple[Strategy, str], ...]:
    return tuple((plan[0], why) for plan, why in trials.refused.items() if len(plan) == 1)


def _refused_on(cluster: Cluster | None) -> dict[str, str]:
    """Strategies that what the job runs on does not take."""
    if cluster is None or len(cluster.hosts) < 2:
        return {}
    why = f"its workers must share one host's memory, and the cluster has {len(cluster.hosts)}"
    return {name: why for name in known() if kind_of(name).one_host}
