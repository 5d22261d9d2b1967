"""Plans that no other beats in time, bytes, memory and exactness at once."""

from collections.abc import Mapping

from paceline.search.goal import ORDER, least_exact
from paceline.search.score import Score
from paceline.search.space import Plan


def pareto(found: Mapping[Plan, Score]) -> tuple[Plan, ...]:
    """From the fastest on; of plans that cost the same, the shortest."""
    front: list[Plan] = []
    for plan in sorted(
        found, key=lambda each: (objectives(each, found[each]), len(each), str(each))
    ):
        mine = objectives(plan, found[plan])
        if not any(dominates(objectives(other, found[other]), mine) for other in front):
            front.append(plan)
    return tuple(front)


def objectives(plan: Plan, score: Score) -> tuple[float, ...]:
    """Time for a batch, bytes sent for it, memory where it is known, and how exact it is."""
    exactness = float(ORDER.index(least_exact([each.effect for each in plan])))
    sends = score.sends / score.samples
    return (score.batch_ns, exactness, sends, float(score.memory_bytes or 0))


def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether the first is nowhere worse."""
    return all(a <= b for a, b in zip(one, other, strict=True))
