"""Masks of sparse training: how dense each layer is, which weights go, which come.

Densities are those of Erdos-Renyi kernels (Evci et al., "Rigging the Lottery", 2020): a layer's
density is proportional to the sum of its dimensions over their product, and 1 at most. Vectors of
one dimension (biases, normalisation) and statistics stay whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.learn.errors import LearnError
from paceline.learn.learner import TensorSpan
from paceline.learn.samples import Vector

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Quota:
    """How many weights of a layer are there."""

    layer: TensorSpan
    count: int


def quotas(layers: Sequence[TensorSpan], trained: int, sparsity: float) -> tuple[Quota, ...]:
    """Of every layer that a mask thins out; together `1 - sparsity` of them is there."""
    thin = [each for each in layers if len(each.shape) > 1 and each.first < trained]
    whole = sum(each.size for each in thin)
    full: set[str] = set()
    while True:
        open_ = [each for each in thin if each.name not in full]
        left = (1 - sparsity) * whole - sum(e.size for e in thin if e.name in full)
        raw = {each.name: sum(each.shape) / each.size for each in open_}
        scale = left / sum(raw[each.name] * each.size for each in open_) if open_ else 0.0
        over = {name for name, value in raw.items() if scale * value >= 1}
        if not over:
            break
        full |= over
    found = [
        Quota(e, e.size if e.name in full else round(scale * raw[e.name] * e.size)) for e in thin
    ]
    for quota in found:
        if quota.count < 1:
            raise LearnError(
                f"a sparsity of {sparsity:g} leaves no weight of {quota.layer.name}, and nothing "
                "passes through a layer without weights; ask for less"
            )
    return tuple(found)


def largest_kept(weights: Vector, wanted: Sequence[Quota]) -> Mask:
    """The largest weights of each layer, as many as its quota; all of what is not thinned out."""
    mask = np.ones(len(weights), np.bool_)
    for quota in wanted:
        mask[quota.layer.place] = _top(np.abs(weights[quota.layer.place]), quota.count)
    return mask


def readjusted(
    weights: Vector, gradient: Vector, mask: Mask, wanted: Sequence[Quota], share: float
) -> Mask:
    """A share of each layer's weights goes, the smallest; as many come where the gradient is
    largest. Weights that have just gone do not come back."""
    found = mask.copy()
    for quota in wanted:
        place, count = quota.layer.place, quota.count
        stay = count - min(round(share * count), quota.layer.size - count)
        sizes = np.where(mask[place], np.abs(weights[place]), -1.0)
        kept = _top(sizes, stay)
        slopes = np.where(mask[place], -1.0, np.abs(gradient[place]))
        found[place] = kept | _top(slopes, count - stay)
    return found


def _top(values: NDArray[Any], count: int) -> Mask:
    """Where the largest are; of equal ones the first."""
    found = np.zeros(len(values), np.bool_)
    found[np.argsort(-values, kind="stable")[:count]] = True
    return found
