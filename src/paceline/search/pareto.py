"""Plans that no other beats in time, exactness, bytes and memory at once."""

from collections.abc import Mapping
from math import log

from paceline.search.goal import ORDER, least_exact
from paceline.search.score import Score
from paceline.search.space import Plan

CLOSE = 0.01
"""A plan that is not better by this share in anything is as good as another that is kept."""


def pareto(found: Mapping[Plan, Score]) -> tuple[Plan, ...]:
    """From the fastest on; of plans that hardly differ, the most exact, then the shortest."""
    costs = {plan: objectives(plan, score) for plan, score in found.items()}
    front: list[Plan] = []
    for plan in sorted(found, key=lambda each: (*_roughly(costs[each]), len(each), str(each))):
        if not any(dominates(costs[other], costs[plan], CLOSE) for other in front):
            front.append(plan)
    return tuple(front)


def objectives(plan: Plan, score: Score) -> tuple[float, ...]:
    """Time for a batch, how exact it is, bytes sent for it, and memory where it is known."""
    exactness = float(ORDER.index(least_exact([each.effect for each in plan])))
    return (score.batch_ns, exactness, score.batch_sends, float(score.memory_bytes or 0))


def _roughly(costs: tuple[float, ...]) -> tuple[float, ...]:
    """With times that are close as one."""
    return (round(log(max(1.0, costs[0])) / CLOSE), *costs[1:], costs[0])


def dominates(one: tuple[float, ...], other: tuple[float, ...], close: float = 0.0) -> bool:
    """Whether the first is nowhere worse, or not by more than that share."""
    return all(a <= b * (1 + close) for a, b in zip(one, other, strict=True))
