"""The end of a search: the best plan without what brings little, seen in full, and why it is so."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from paceline.errors import PacelineError
from paceline.predict import PredictError, predict
from paceline.search.errors import SearchError
from paceline.search.found import Candidate
from paceline.search.goal import Goal, least_exact
from paceline.search.judge import Judge
from paceline.search.learning import reached
from paceline.search.reasons import ReplayedPlan, reason
from paceline.search.score import Refused, Score
from paceline.search.space import Plan
from paceline.search.trials import Trials
from paceline.strategies import strategy

LITTLE = 0.005
"""A part that makes the goal better by less than this share is left out: no prediction tells so
little from nothing, and what it costs a live job that no price knows may be more."""
LOOKS = 5
"""Plans that are seen in full, where the best few are not as they looked coarsely."""


def settled(trials: Trials, judge: Judge) -> Candidate:
    """The best that holds in full, with its reasons and interval."""
    exact = judge.exact
    plan = _best(trials, judge, exact)
    score = _known(exact, plan)
    _require_limit(trials.goal, plan, score, exact)
    _require_target(trials.goal, plan, score)
    reasons = tuple(_with_learning(trials.goal, plan, _reasons(plan, judge.remembering)))
    found = candidate(trials.goal, plan, score, reasons)
    return _as_predicted(trials.goal, found, judge)


def candidate(goal: Goal, plan: Plan, score: Score, reasons: tuple[str, ...] = ()) -> Candidate:
    effect = least_exact([each.effect for each in plan])
    found = Candidate(
        plan, score.step_ns, score.batch_ns, score.memory_bytes, score.sends, effect, reasons
    )
    return _when_reached(goal, found, score.samples)


def _when_reached(goal: Goal, found: Candidate, samples: float) -> Candidate:
    """With the time to the target, where that is the goal."""
    if goal.learning is None:
        return found
    low, high = found.low_ns or found.step_ns, found.high_ns or found.step_ns
    off = (low / found.step_ns, high / found.step_ns)
    there = reached(goal.learning.expected(found.plan, samples), found.batch_ns, off)
    return replace(found, reached=there)


def _with_learning(goal: Goal, plan: Plan, reasons: Iterator[str]) -> Iterator[str]:
    """Behind what each part does to the step, what it does to learning."""
    told = [goal.learning.words(part) if goal.learning else "" for part in plan] or [""]
    yield from (f"{line}; {words}" if words else line for line, words in zip(reasons, told))


def _as_predicted(goal: Goal, found: Candidate, judge: Judge) -> Candidate:
    """With the interval that a prediction has."""
    full = judge.exact.candidates.prediction(found.plan)
    told = replace(
        found,
        step_ns=full.step_ns,
        batch_ns=full.batch_ns,
        low_ns=full.low_ns,
        high_ns=full.high_ns,
    )
    return _when_reached(goal, told, full.samples)


def _best(trials: Trials, judge: Judge, exact: Judge) -> Plan:
    """Of the best few as they look, the best as it is."""
    goal, seen = trials.goal, dict[Plan, tuple[float, ...]]()
    unchanged = _known(exact, ())
    for look in islice(trials.ranked(), LOOKS):
        if seen and min(seen.values()) <= trials.cost(look):
            break
        plan = _pruned(look, trials, judge)
        score = exact.score(plan)
        if isinstance(score, Score):
            seen[plan] = (*goal.cost(plan, score), float(len(plan)))
    seen[()] = (*goal.cost((), unchanged), 0.0)
    return min(seen, key=lambda plan: seen[plan])


def _pruned(plan: Plan, trials: Trials, judge: Judge) -> Plan:
    """Without the parts that bring little, the least useful first."""
    goal = trials.goal
    while plan:
        now = goal.cost(plan, trials.found[plan] if plan in trials.found else _known(judge, plan))
        shorter = _scores(list(_without_one(plan)), trials, judge)
        costs = {p: goal.cost(p, s) for p, s in shorter.items() if isinstance(s, Score)}
        least = min(costs, key=lambda p: costs[p], default=None)
        if least is None or not _hardly_worse(costs[least], now):
            return plan
        plan = least
    return plan


def _scores(plans: Sequence[Plan], trials: Trials, judge: Judge) -> dict[Plan, Score | Refused]:
    """As they were tried; of others anew."""
    known = {plan: trials.known(plan) for plan in plans}
    new = [plan for plan, score in known.items() if score is None]
    anew = dict(zip(new, judge.scores(new), strict=True))
    return {plan: score or anew[plan] for plan, score in known.items()}


def _hardly_worse(cost: tuple[float, ...], than: tuple[float, ...]) -> bool:
    """By whether the limit holds, then by what the goal minimises."""
    return cost[0] == than[0] and cost[1] <= than[1] * (1 + LITTLE)


def _without_one(plan: Plan) -> Iterator[Plan]:
    return (plan[:at] + plan[at + 1 :] for at in range(len(plan)))


def _reasons(plan: Plan, judge: Judge) -> Iterator[str]:
    if not plan:
        yield "nothing that was tried makes it better, so the job stays as it is"
        return
    seen = _replayed(judge, plan)
    for part, without in zip(plan, _without_one(plan)):
        try:
            other = _replayed(judge, without)
        except PacelineError:
            yield f"{part}: the other parts need it"
            continue
        yield reason(str(part), seen, other)


def _replayed(judge: Judge, plan: Plan) -> ReplayedPlan:
    return ReplayedPlan(*judge.replayed(plan))


def _known(judge: Judge, plan: Plan) -> Score:
    score = judge.score(plan)
    if isinstance(score, Refused):
        raise SearchError(f"[{', '.join(map(str, plan))}] cannot be replayed: {score.reason}")
    return score


def _require_target(goal: Goal, plan: Plan, score: Score) -> None:
    """Say what was reached where nothing that was tried gets to the target."""
    learning = goal.learning
    if learning is None or learning.expected(plan, score.samples).batches is not None:
        return
    raise SearchError(
        f"no plan that was tried reaches {learning.progress.target:g}, nor does the job as it is: "
        f"its run got to {learning.progress.best:.3f}, and its curve does not lead there within "
        "twenty times its length. Give a lower target, or a curve of a longer run"
    )


def _require_limit(goal: Goal, plan: Plan, score: Score, exact: Judge) -> None:
    """Say what is largest, and what would do, where nothing stays within the limit."""
    limit = goal.memory_limit_bytes
    if limit is None or goal.holds(score):
        return
    job = exact.candidates
    memory = predict(job.graph, plan, job.cluster, job.question).memory
    if memory is None:
        raise PredictError(
            "the graph does not tell what a rank holds, so it is not known what fits; record the "
            "job anew with `paceline record`"
        )
    fit = memory.fit(limit)
    told = ", ".join(map(str, plan)) or "the job as it is"
    raise SearchError(
        f"no plan that was tried stays within {limit:,} bytes: the smallest peak is "
        f"{fit.peak_bytes:,} bytes on rank {fit.rank} ({told}), of which {fit.largest} are the "
        f"most with {fit.largest_bytes:,}. Give a limit of {fit.peak_bytes:,} or more, allow less "
        f"exact plans (--allow), or search longer (--budget){_under_fsdp2(exact, plan)}"
    )


def _under_fsdp2(exact: Judge, plan: Plan) -> str:
    """What FSDP2 would hold, where the goal leaves it out of plans."""
    sharded = strategy("fully_sharded")
    score = exact.score((sharded,))
    if sharded in plan or isinstance(score, Refused) or score.memory_bytes is None:
        return ""
    return f". FSDP2 in place of DDP (fully_sharded) holds {score.memory_bytes:,} bytes at its peak"
