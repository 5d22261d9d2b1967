"""Evolutionary: NSGA-II over lists of edits, on time, memory and exactness at once. Deb et al., "A
Fast and Elitist Multiobjective Genetic Algorithm" (2002).

A list of edits is a plan. A child takes edits of both parents, in turn as far as they go together,
and then has one added, taken out or set otherwise. Parents win a tournament by front, then by how
far they stand from their neighbours on it. What breaks the memory limit stands behind all fronts.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.predict import Candidates
from paceline.search.pareto import dominates, objectives
from paceline.search.space import Plan, Space, fits
from paceline.search.trials import Trials

SIZE = 48
PATIENCE = 12
"""Generations without a better plan after which it ends."""


def evolutionary(space: Space, trials: Trials, job: Candidates) -> None:
    chance = random.Random(trials.goal.seed)
    begun = [(), *((setting,) for setting in space.settings)]
    trials.ask(begun)
    alive = _survivors(trials, begun)
    best, still = trials.ranked()[0], 0
    while still < PATIENCE and space.settings:
        children = [_child(space, alive, chance) for _ in range(SIZE)]
        trials.ask(children)
        alive = _survivors(trials, [*alive.order, *children])
        leader = trials.ranked()[0]
        best, still = (leader, 0) if leader != best else (best, still + 1)


@dataclass(frozen=True)
class Alive:
    """A generation: plans from the best on, and each one's place in a tournament."""

    order: tuple[Plan, ...]

    def parent(self, chance: random.Random) -> Plan:
        """The better of two drawn: plans stand in the order of their rank."""
        return self.order[min(chance.randrange(len(self.order)) for _ in range(2))]


def _survivors(trials: Trials, plans: Sequence[Plan]) -> Alive:
    """The best by front and crowding."""
    taken = [plan for plan in dict.fromkeys(plans) if plan in trials.found]
    hold = [plan for plan in taken if trials.goal.holds(trials.found[plan])]
    found: list[Plan] = []
    for front in fronts({plan: objectives(plan, trials.found[plan]) for plan in hold}):
        found += front
    found += trials.ranked(set(taken) - set(hold))
    return Alive(tuple(found[:SIZE]))


def fronts(costs: dict[Plan, tuple[float, ...]]) -> list[list[Plan]]:
    """Plans that none left dominates, front after front; in each, the most alone first."""
    left, found = dict(costs), []
    while left:
        front = [
            plan
            for plan, mine in left.items()
            if not any(other != mine and dominates(other, mine) for other in left.values())
        ]
        alone = crowding([left[plan] for plan in front])
        order = sorted(range(len(front)), key=lambda at: (-alone[at], left[front[at]]))
        found.append([front[at] for at in order])
        for plan in front:
            del left[plan]
    return found


def crowding(costs: Sequence[tuple[float, ...]]) -> list[float]:
    """How far each stands from its neighbours, over all objectives; endless at the ends."""
    found = [0.0] * len(costs)
    for objective in range(len(costs[0]) if costs else 0):
        order = sorted(range(len(costs)), key=lambda at: costs[at][objective])
        low, high = costs[order[0]][objective], costs[order[-1]][objective]
        if high == low:
            continue
        found[order[0]] = found[order[-1]] = float("inf")
        for before, at, behind in zip(order, order[1:], order[2:]):
            found[at] += (costs[behind][objective] - costs[before][objective]) / (high - low)
    return found


def _child(space: Space, alive: Alive, chance: random.Random) -> Plan:
    edits = [*alive.parent(chance), *alive.parent(chance)]
    chance.shuffle(edits)
    made: Plan = ()
    for edit in edits:
        if fits(made, edit) and chance.random() < 0.75:
            made = (*made, edit)
    if made and chance.random() < 0.3:
        gone = chance.randrange(len(made))
        made = made[:gone] + made[gone + 1 :]
    else:
        made = space.joined(made, chance.choice(space.settings))
    return space.ordered(made)
