"""Guided: what brings most alone is tried together, from several beginnings at once."""

from paceline.search.space import Plan, Space
from paceline.search.trials import Trials

WIDTH = 8


def guided(space: Space, trials: Trials) -> None:
    """A beam over joins of single settings."""
    trials.ask([(), *space.singles()])
    singles = [plan[0] for plan in space.singles() if plan in trials.found]
    singles.sort(key=lambda each: trials.cost((each,)))
    beam: list[Plan] = [()]
    while True:
        grown = {space.joined(plan, each) for plan in beam for each in singles}
        new = sorted(grown - set(beam), key=str)
        trials.ask(new)
        ranked = sorted((p for p in {*beam, *new} if p in trials.found), key=trials.cost)
        if ranked[:WIDTH] == beam:
            return
        beam = ranked[:WIDTH]
