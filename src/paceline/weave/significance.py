"""Is one candidate really faster than another? Wilcoxon's signed-rank test on paired samples.

Exact, one-sided: every pattern of signs of the paired differences is equally likely where there is
no difference. Costs n^3 for n pairs; tens of pairs are plenty.
"""

from collections.abc import Sequence


def p_faster(candidate: Sequence[float], incumbent: Sequence[float]) -> float:
    """The chance of differences this much in the candidate's favour if there were none."""
    differences = [b - a for a, b in zip(candidate, incumbent, strict=True) if a != b]
    if not differences:
        return 1.0
    ranks = _doubled_ranks([abs(d) for d in differences])
    in_favour = sum(r for r, d in zip(ranks, differences) if d > 0)
    ways = _ways(ranks)
    chance: float = sum(ways[in_favour:]) / 2 ** len(ranks)
    return chance


def _doubled_ranks(sizes: list[float]) -> list[int]:
    """Ranks from 1, times two so that shared ranks of ties stay whole."""
    order = sorted(sizes)
    first = {size: order.index(size) for size in set(sizes)}
    return [2 * first[size] + order.count(size) + 1 for size in sizes]


def _ways(ranks: list[int]) -> list[int]:
    """How many of all sign patterns give each sum of positive ranks."""
    ways = [1] + [0] * sum(ranks)
    for rank in ranks:
        ways = [w + (ways[i - rank] if i >= rank else 0) for i, w in enumerate(ways)]
    return ways
