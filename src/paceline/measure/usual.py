"""The mean of times without the longest twentieth, which others on the machine may have made."""

from collections.abc import Sequence


def usual_mean(times: Sequence[float]) -> float:
    usual = sorted(times)[: max(1, len(times) * 19 // 20)]
    return sum(usual) / len(usual) if usual else 0.0
