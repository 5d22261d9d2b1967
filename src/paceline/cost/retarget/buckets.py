"""DDP's rule for buckets: gradients in the order they become ready, cut where a limit is reached.

A bucket is closed by the gradient with which it reaches its limit. The first bucket's limit is
1 MiB where the user left the sizes alone, so that communication starts early; else all are equal.
"""

from collections.abc import Sequence

from paceline.cost.retarget.job import RetargetError

MIB = 1024 * 1024
FIRST_BUCKET_BYTES = MIB
DEFAULT_BUCKET_BYTES = 25 * MIB


def buckets_of(
    order: Sequence[int], sizes: Sequence[int], limit_bytes: int, first_limit_bytes: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Parameters of each bucket. `sizes` are by parameter; without a first limit all are equal."""
    if limit_bytes <= 0:
        raise RetargetError(f"a bucket of {limit_bytes} bytes was asked for; give more than 0")
    found: list[tuple[int, ...]] = []
    mine: list[int] = []
    held = 0
    for parameter in order:
        mine.append(parameter)
        held += sizes[parameter]
        if held >= (first_limit_bytes or limit_bytes if not found else limit_bytes):
            found.append(tuple(mine))
            mine, held = [], 0
    return (*found, tuple(mine)) if mine else tuple(found)
