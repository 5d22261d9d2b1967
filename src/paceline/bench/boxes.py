"""Boxes found against boxes that are there: mean average precision at an overlap of one half."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

OVERLAP: Final = 0.5


@dataclass(frozen=True)
class Found:
    """A box that a detector tells."""

    kind: int
    sure: float
    box: Box


def overlap(one: Box, other: Box) -> float:
    """Intersection over union."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    both = max(wide, 0.0) * max(high, 0.0)
    return both / (_area(one) + _area(other) - both) if both else 0.0


def apart(found: Sequence[Found]) -> list[Found]:
    """The surest first; what overlaps a surer one of its kind is taken for the same object."""
    kept: list[Found] = []
    for each in sorted(found, key=lambda each: -each.sure):
        same = (other for other in kept if other.kind == each.kind)
        if all(overlap(each.box, other.box) < OVERLAP for other in same):
            kept.append(each)
    return kept


def mean_average_precision(
    found: Sequence[Sequence[Found]], there: Sequence[Sequence[tuple[int, Box]]], kinds: int
) -> float:
    """Over the kinds; `found` and `there` have an entry for each scene."""
    kept = [apart(each) for each in found]
    return sum(_average_precision(kept, there, kind) for kind in range(kinds)) / kinds


def _average_precision(
    found: Sequence[Sequence[Found]], there: Sequence[Sequence[tuple[int, Box]]], kind: int
) -> float:
    """The area under precision over recall, each precision the best at that recall or beyond."""
    wanted = sum(k == kind for scene in there for k, _ in scene)
    told = [
        (each.sure, right)
        for mine, theirs in zip(found, there)
        for each, right in _judged([f for f in mine if f.kind == kind], theirs, kind)
    ]
    right, precisions, steps = 0, [], []
    for count, (_, hit) in enumerate(sorted(told, key=lambda row: -row[0]), 1):
        right += hit
        precisions.append(right / count)
        steps.append(hit)
    best, area = 0.0, 0.0
    for precision, hit in zip(reversed(precisions), reversed(steps)):
        best = max(best, precision)
        area += best * hit
    return area / wanted if wanted else 1.0


def _judged(
    found: Sequence[Found], there: Sequence[tuple[int, Box]], kind: int
) -> list[tuple[Found, bool]]:
    """Whether each, the surest first, finds an object that no surer one has found."""
    left = [box for k, box in there if k == kind]
    judged = []
    for each in sorted(found, key=lambda each: -each.sure):
        near = max(left, key=lambda box: overlap(each.box, box), default=None)
        hit = near is not None and overlap(each.box, near) >= OVERLAP
        if hit and near is not None:
            left.remove(near)
        judged.append((each, hit))
    return judged


def _area(box: Box) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)
