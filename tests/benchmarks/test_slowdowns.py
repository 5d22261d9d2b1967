"""The table of known slow-downs: what the benchmark of `diff` asks about."""

from itertools import pairwise

from benchmarks.accuracy.slowdowns import HELD_BACK, SLOWDOWNS, recordings, unchanged


def test_there_are_twenty_four_slow_downs_each_once() -> None:
    keys = [row.key for row in (*SLOWDOWNS, *HELD_BACK)]
    assert len(SLOWDOWNS) == 24
    assert len(set(keys)) == len(keys)
    assert all(row.named is not None for row in SLOWDOWNS)


def test_every_slow_down_is_recorded_just_after_the_plain_job() -> None:
    made = list(recordings())
    for (_, before), (name, row) in pairwise(made):
        if row.named is not None:
            assert before.named is None, name
            assert before.model == row.model


def test_twelve_unchanged_pairs_share_no_recording_and_are_of_one_job_each() -> None:
    pairs = unchanged()
    names = [name for pair in pairs for name in pair]
    assert len(pairs) == 12
    assert len(set(names)) == 24
    assert set(names) <= {name for name, _ in recordings()}
    assert all(a.split("-")[0] == b.split("-")[0] for a, b in pairs)
