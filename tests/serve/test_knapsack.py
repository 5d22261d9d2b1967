"""The division of a batch is exact: no other one is faster."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.serve import InstanceShare, divided


def table(cores: int, batch: int, times: list[int]) -> np.ndarray:
    made = np.full((cores + 1, batch + 1), np.inf)
    made[1:, 1:] = np.array(times[: cores * batch]).reshape(cores, batch)
    return made


def divisions(cores: int, batch: int) -> Iterator[tuple[InstanceShare, ...]]:
    """Every set of instances that does the batch."""
    if batch == 0:
        yield ()
        return
    for threads in range(1, cores + 1):
        for samples in range(1, batch + 1):
            for rest in divisions(cores - threads, batch - samples):
                yield (InstanceShare(threads, samples), *rest)


def time_of(shares: tuple[InstanceShare, ...], latency: np.ndarray) -> float:
    return max(latency[share.threads][share.batch] for share in shares)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.lists(st.integers(1, 9), min_size=20, max_size=20))
def test_no_division_is_faster_and_none_as_fast_has_fewer_instances(
    cores: int, batch: int, times: list[int]
) -> None:
    latency = table(cores, batch, times)
    least, shares = divided(latency, cores, batch)
    every = list(divisions(cores, batch))
    assert least == min(time_of(one, latency) for one in every) == time_of(shares, latency)
    assert sum(share.batch for share in shares) == batch
    assert sum(share.threads for share in shares) <= cores
    assert len(shares) == min(len(one) for one in every if time_of(one, latency) == least)


def test_cores_stay_idle_where_more_threads_are_slower() -> None:
    latency = table(2, 1, [3, 5])
    assert divided(latency, 2, 1) == (3.0, (InstanceShare(1, 1),))


def test_a_slower_instance_gets_the_smaller_part() -> None:
    """Two threads take 1 a sample, one thread 2: of six samples two threads do four."""
    latency = table(3, 6, [2 * b for b in range(1, 7)] + [*range(1, 7)] + [9] * 6)
    assert divided(latency, 3, 6) == (4.0, (InstanceShare(2, 4), InstanceShare(1, 2)))
