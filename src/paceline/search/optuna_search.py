"""Optuna's tree-structured Parzen estimator as a black box: the baseline of the others. Akiba et
al., "Optuna" (2019). Needs the extra `search`.

Every strategy is a choice among its settings and none; what cannot stand beside what was chosen
before it is dropped, so that each trial is a plan.
"""

import warnings
from importlib.util import find_spec
from typing import Any

from paceline.predict import Candidates
from paceline.search.errors import SearchError
from paceline.search.space import Plan, Space, fits
from paceline.search.trials import Trials

TRIALS = 1000
NONE = -1


def optuna_search(space: Space, trials: Trials, job: Candidates) -> None:
    if find_spec("optuna") is None:
        raise SearchError(
            "the optuna searcher needs optuna, which is not installed: pip install "
            "'paceline[search]', or take the guided searcher"
        )
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=trials.goal.seed, multivariate=True)
        study = optuna.create_study(sampler=sampler)
    unchanged = trials.one(())
    assert unchanged is not None
    for _ in range(TRIALS):
        trial = study.ask()
        plan = _plan(space, trial)
        trials.one(plan)
        study.tell(trial, _loss(trials, plan))


def _plan(space: Space, trial: Any) -> Plan:
    made: Plan = ()
    for name, settings in space.options.items():
        chosen = trial.suggest_categorical(name, [NONE, *range(len(settings))])
        if chosen != NONE and fits(made, settings[chosen]):
            made = (*made, settings[chosen])
    return made


def _loss(trials: Trials, plan: Plan) -> float:
    """What the goal minimises, as one number; what the job refuses is twice the worst so far."""
    if plan in trials.found:
        broken, cost, *_ = trials.cost(plan)
        return cost * (1 + 9 * broken)
    return 2 * max(trials.cost(each)[1] for each in trials.found)
