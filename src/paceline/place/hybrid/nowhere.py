"""A model that fits nowhere on a cluster: what is too much, by how much, and what would do."""

from dataclasses import replace
from typing import Final

from paceline.graph.schedules import Schedule
from paceline.imagine.decoder import fullest
from paceline.imagine.transformer import Recompute
from paceline.place.hybrid.question import Allowed, PlanQuestion
from paceline.place.hybrid.search import Search
from paceline.place.hybrid.space import candidates
from paceline.place.operators.problem import PlacementError

_LEAN: Final = Allowed(
    micro_batches=(1,), schedules=(Schedule.ONE_F_ONE_B,), chunks=(1,), recomputes=(Recompute.FULL,)
)
_MOST_DEVICES: Final = 16_384


def refuse(search: Search) -> PlacementError:
    """Why there is no plan."""
    question, leanest = search.question, search.leanest
    if leanest is None:
        return PlacementError(
            f"no degrees divide {question.site.ranks} devices, a batch of {question.global_batch} "
            f"and {question.model.name} ({question.model.layers} layers, "
            f"{question.model.attention.heads} heads) at once; change the batch or the devices"
        )
    lacks = leanest.peak.total - question.memory_bytes
    size = leanest.peak.held[leanest.category]
    enough = smallest(question)
    would = (
        f"The smallest cluster of such hosts that would do: {enough} devices."
        if enough
        else f"No cluster of up to {_MOST_DEVICES} such devices would do."
    )
    return PlacementError(
        f"{question.model.name} fits nowhere on {question.site.ranks} x "
        f"{question.site.device.name}: the leanest of {search.considered} plans needs "
        f"{leanest.peak.total / 1e9:.1f} GB on a rank of stage {leanest.peak.stage}, "
        f"{lacks / 1e9:.1f} GB more than there are; most of it {leanest.category.name.lower()} "
        f"({size / 1e9:.1f} GB). {would}"
    )


def smallest(question: PlanQuestion) -> int:
    """Devices of the smallest larger cluster on which some plan fits, of 1 and 1.5 times the powers
    of two; 0 where there is none."""
    lean = replace(question, allowed=_LEAN)
    for times in _sizes():
        ranks = question.site.ranks * times
        if ranks > _MOST_DEVICES:
            return 0
        larger = replace(lean, site=replace(question.site, ranks=ranks))
        if any(fullest(job).total <= question.memory_bytes for job in candidates(larger)):
            return ranks
    return 0


def _sizes() -> list[int]:
    return [n for i in range(1, 15) for n in (2**i, 3 * 2 ** (i - 1))]
