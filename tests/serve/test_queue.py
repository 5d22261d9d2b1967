"""Requests wait, are cut, batched and dealt: no sample is lost, none is served twice."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.serve import InstanceShare
from paceline.serve.dealing import dealt
from paceline.serve.errors import Overloaded
from paceline.serve.load import Load, power_of_two
from paceline.serve.queue import Piece, Queue, parted


def queue_of(*samples: int, capacity: int = 1000) -> Queue:
    queue = Queue(capacity)
    for number, count in enumerate(samples):
        queue = queue.offered(Piece(number, 0, count, arrived_ns=number))
    return queue


def rows(pieces: tuple[Piece, ...]) -> list[tuple[int, int]]:
    return [(piece.request, row) for piece in pieces for row in range(piece.first, piece.end)]


SAMPLES = st.lists(st.integers(1, 9), max_size=6)


@settings(deadline=None)
@given(SAMPLES, st.integers(1, 12))
def test_batches_take_every_sample_once_and_in_order(samples: list[int], batch: int) -> None:
    queue, seen = queue_of(*samples), []
    while queue.pieces:
        pieces, queue = queue.taken(batch)
        assert 0 < len(rows(pieces)) <= batch
        seen += rows(pieces)
    assert seen == rows(queue_of(*samples).pieces)


@settings(deadline=None)
@given(SAMPLES, st.lists(st.integers(0, 9), max_size=4))
def test_parts_of_a_batch_are_its_samples_in_order(samples: list[int], parts: list[int]) -> None:
    pieces, _ = queue_of(*samples).taken(sum(parts))
    parts[-1:] = [len(rows(pieces)) - sum(parts[:-1])] if parts else []
    if min(parts, default=0) >= 0:
        found = parted(pieces, tuple(parts))
        assert [len(rows(one)) for one in found] == parts
        assert [row for one in found for row in rows(one)] == rows(pieces)[: sum(parts)]


def test_what_failed_goes_first_and_alone() -> None:
    pieces, queue = queue_of(2, 3, 4).taken(5)
    queue = queue.returned(pieces)
    batches = []
    while queue.pieces:
        taken, queue = queue.taken(100)
        batches.append([piece.request for piece in taken])
    assert batches == [[0], [1], [2]]


def test_parts_of_failed_pieces_keep_every_sample() -> None:
    failed = tuple(replace(piece, failed=1) for piece in queue_of(2, 3).pieces)
    assert [rows(one) for one in parted(failed, (1, 4))] == [rows(failed)[:1], rows(failed)[1:]]


def test_a_full_queue_says_how_full_it_is() -> None:
    queue = queue_of(3, 4, capacity=8)
    assert queue.offered(Piece(9, 0, 1, 0)).samples == 8
    with pytest.raises(Overloaded, match="7 samples wait, of at most 8"):
        queue.offered(Piece(9, 0, 2, 0))


def test_a_batch_begins_when_it_is_whole_or_the_first_has_waited_for_its_window() -> None:
    queue = Queue(100).offered(Piece(0, 0, 3, arrived_ns=1000))
    assert not queue.due(4, 1000, 50)
    assert queue.due(3, 1000, 50)
    assert queue.due(4, 1050, 50)
    assert not Queue(100).due(1, 10**9, 0)
    assert queue.returned(queue.pieces).without(0).pieces == ()
    assert queue.returned(queue.pieces).due(100, 1000, 50)


TIMES = {1: 10, 2: 6, 4: 4}
FREE = st.lists(
    st.builds(InstanceShare, st.sampled_from(sorted(TIMES)), st.integers(1, 4)),
    min_size=1,
    max_size=3,
)


@settings(deadline=None)
@given(st.integers(1, 12), FREE)
def test_samples_are_dealt_so_that_the_last_is_done_as_early_as_can_be(
    samples: int, free: list[InstanceShare]
) -> None:
    def last(parts: tuple[int, ...]) -> float:
        return max(5 + TIMES[share.threads] * part for share, part in zip(free, parts) if part)

    parts = dealt(samples, free, lambda threads, batch: 5 + TIMES[threads] * batch)
    whole = min(samples, sum(share.batch for share in free))
    assert sum(parts) == whole
    every = product(*(range(share.batch + 1) for share in free))
    assert last(parts) == min(last(one) for one in every if sum(one) == whole)


def test_the_load_is_known_after_ten_looks_and_follows_a_change() -> None:
    load = Load()
    for _ in range(9):
        load = load.seen(9)
    assert load.batch is None
    assert load.seen(9).batch == 8
    for _ in range(60):
        load = load.seen(1)
    assert load.batch == 1


def test_a_single_burst_does_not_change_the_load() -> None:
    load = Load()
    for samples in (2,) * 20 + (16,):
        load = load.seen(samples)
    assert load.batch == 2


@settings(deadline=None)
@given(st.floats(0, 1e6))
def test_a_load_becomes_the_nearest_power_of_two(value: float) -> None:
    rounded = power_of_two(value)
    assert rounded & (rounded - 1) == 0
    assert rounded == 1 or rounded / 2**0.51 <= value <= rounded * 2**0.51
