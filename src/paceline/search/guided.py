"""Guided by the critical path, as dPRO's search is (Hu et al., MLSys 2022).

First every setting alone, and beside them what dPRO's rules propose; then the best settings of any
two strategies together; then a beam over what else to add to the best plans, as far as it acts on
their critical paths (`guidance`). Then sizes are refined between the settings that were tried; and
both again, until the best plans stay the best. All of that looks coarsely; `search` looks at the
best in full.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import combinations

from paceline.predict import Candidates
from paceline.search.guidance import Guidance
from paceline.search.space import Plan, Space, fits
from paceline.search.trials import Trials
from paceline.strategies import Effect, Strategy, name_of

WIDTH = 6
STEPS = (0.5, 0.75, 1.5, 2.0)
"""By what a size is multiplied when it is refined."""


def guided(space: Space, trials: Trials, job: Candidates) -> None:
    guidance = Guidance(space, trials, job)
    trials.ask([(), *((setting,) for setting in guidance.settings)])
    trials.ask(_pairs(guidance))
    before = list[Plan]()
    while (best := trials.ranked()[:WIDTH]) != before:
        before = best
        _grow(guidance)
        _refine(guidance)


def _pairs(guidance: Guidance) -> Iterator[Plan]:
    """The best setting of each strategy beside that of each other."""
    best: dict[str, Strategy] = {}
    for plan in guidance.trials.ranked((setting,) for setting in guidance.settings):
        best.setdefault(name_of(type(plan[0])), plan[0])
    for one, other in combinations(best.values(), 2):
        if fits((one,), other):
            yield guidance.space.ordered([one, other])


def _grow(guidance: Guidance) -> None:
    """Until nothing that is added to the best plans makes one of them better."""
    trials, beam = guidance.trials, list[Plan]()
    while (best := trials.ranked()[:WIDTH]) != beam:
        beam = best
        guidance.look(beam)
        trials.ask(
            guidance.space.joined(plan, setting)
            for plan in beam
            for setting in guidance.useful(plan)
        )


def _refine(guidance: Guidance) -> None:
    """The best plan's sizes, as long as one is better."""
    trials, best = guidance.trials, None
    while (leader := trials.ranked()[0]) != best:
        best = leader
        trials.ask(
            guidance.space.joined(leader, nearby)
            for setting in leader
            for nearby in _nearby(setting, guidance.space)
        )


def _nearby(setting: Strategy, space: Space) -> Iterator[Strategy]:
    """The setting with a size between those that are worth trying. What a size of a change that is
    not exact does to training is not known to a replay, so those stay."""
    if setting.effect is not Effect.EXACT:
        return
    worth = space.options[name_of(type(setting))]
    for each in fields(setting):  # type: ignore[arg-type]
        sizes = [getattr(other, each.name) for other in worth]
        value = getattr(setting, each.name)
        if type(value) is not int or len(set(sizes)) < 2:
            continue
        for size in sorted({round(value * step) for step in STEPS}):
            if min(sizes) <= size <= max(sizes) and size != value:
                yield replace(setting, **{each.name: size})  # type: ignore[type-var]
