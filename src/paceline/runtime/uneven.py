"""A batch dealt to workers of unequal speed: how many samples each gets, what its gradient weighs.

DDP averages the workers' gradients, each the mean over its own samples. Worker i of W, which took
n_i of N samples, therefore counts n_i * W / N times: then the average is the mean over all samples.
"""

from collections.abc import Sequence

from paceline.runtime.exchange import ExchangeError


def parts(samples: int, shares: Sequence[float]) -> tuple[int, ...]:
    """So many samples by the shares, none without one; what is left goes where most is missing."""
    if samples < len(shares):
        raise ExchangeError(
            f"{samples} samples cannot be dealt to {len(shares)} workers; give a larger batch"
        )
    exact = [samples * share / sum(shares) for share in shares]
    counts = [max(1, int(value)) for value in exact]
    while (left := samples - sum(counts)) != 0:
        step = 1 if left > 0 else -1
        able = [at for at, count in enumerate(counts) if count + step >= 1]
        at = max(able, key=lambda at: step * (exact[at] - counts[at]))
        counts[at] += step
    return tuple(counts)
