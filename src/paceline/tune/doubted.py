"""What a new search leaves out, after plans that did not help."""

from collections.abc import Callable, Sequence
from math import inf

from paceline.errors import PacelineError
from paceline.strategies import Strategy, name_of
from paceline.tune.tuned import Trial

Plan = Sequence[Strategy]


def doubted(trials: Sequence[Trial], predicted_ns: Callable[[Plan], float]) -> set[str]:
    """Of a plan with which the job failed all strategies, for any may be the cause. Of one that
    brought less than it was to, the one on which most of the prediction rests."""
    found: set[str] = set()
    for trial in trials:
        plan = trial.outcome.plan
        whole = trial.outcome.finding.failed
        found |= {name_of(type(c)) for c in (plan if whole else heaviest(plan, predicted_ns))}
    return found


def heaviest(plan: Plan, predicted_ns: Callable[[Plan], float]) -> Plan:
    """The part without which the plan is predicted to take longest. Others may need it, so that
    nothing is predicted without it."""
    if len(plan) < 2:
        return plan
    without = [_or_never([*plan[:at], *plan[at + 1 :]], predicted_ns) for at in range(len(plan))]
    return plan[(at := without.index(max(without))) : at + 1]


def _or_never(plan: Plan, predicted_ns: Callable[[Plan], float]) -> float:
    try:
        return predicted_ns(plan)
    except PacelineError:
        return inf
