"""Modes of aggregation: every one gives every worker the sum, exactly where it says so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.wire.aggregate import (
    Blocks,
    Integer,
    Mode,
    Scale,
    Sketched,
    SketchShape,
    SwitchOp,
    dense,
    peeled,
    sketched,
    together,
)
from paceline.wire.aggregate.rounds import Floats, RoundRequest
from paceline.wire.errors import WireError


def gradients(seed: int, workers: int, size: int, density: float) -> list[Floats]:
    random = np.random.default_rng(seed)
    return [
        (random.normal(size=size) * (random.random(size) < density)).astype(np.float32)
        for _ in range(workers)
    ]


seeds = st.integers(0, 10_000)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 5), st.integers(1, 5_000), st.sampled_from([0.0, 0.01, 0.2, 1.0]))
def test_a_sketch_gives_the_bits_of_dense_integers(
    seed: int, workers: int, size: int, density: float
) -> None:
    given_ = gradients(seed, workers, size, density)
    expected = together(Integer(workers), given_)
    for cells in (0.02, 0.3, 1.0):  # too small for the union, or not: exact all the same
        found = together(Sketched(workers, cells, width=64), given_)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected))


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 5), st.integers(1, 3_000), st.sampled_from([0.0, 0.002, 1.0]))
def test_blocks_give_the_bits_of_dense_floats(
    seed: int, workers: int, size: int, density: float
) -> None:
    given_ = gradients(seed, workers, size, density)
    found, expected = together(Blocks(32), given_), together(dense, given_)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected))


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 9))
def test_integers_are_as_close_as_their_scale(seed: int, workers: int) -> None:
    given_ = gradients(seed, workers, 500, 0.5)
    exact = np.sum([g.astype(np.float64) for g in given_], axis=0)
    largest = max(float(np.abs(g).max()) for g in given_)
    step = 2.0 ** -Scale.for_sum(largest, workers).exponent
    (found, *_) = together(Integer(workers), given_)
    rounded = np.abs(exact).max() * 2**-24
    assert np.abs(found - exact).max() <= workers * step / 2 + rounded


@given(st.floats(1e-30, 1e30), st.integers(1, 255))
def test_sums_at_the_shared_scale_never_wrap_round(largest: float, workers: int) -> None:
    value = np.full(1, largest, np.float32)
    integers = Scale.for_sum(float(value[0]), workers).integers(value)
    assert workers * abs(int(integers[0])) < 2**31


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(600, 3_000))
def test_a_sketch_of_twice_the_non_zeros_peels(seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(-(2**31), 2**31 - 1, (rows, 8)).astype(np.int32)
    values[random.random(values.shape) > 0.1] = 0
    union = values != 0
    shape = SketchShape.of(rows, 2 * union.sum(axis=0).max() / rows)
    total, left = peeled(sketched(values, shape), union, shape)
    assert np.array_equal(total[~left], values[~left])
    assert left.sum() <= 0.02 * union.sum()  # rare knots; a last round sums them


def test_a_union_that_is_too_dense_is_sent_as_it_is() -> None:
    mode, given_ = Sketched(2, 0.1, width=64), gradients(3, 2, 6_400, 0.5)
    asked = _volumes(mode, given_)
    union = int(np.logical_or(given_[0] != 0, given_[1] != 0).sum())
    assert asked[-1] <= 4 * union
    assert len(asked) == 3


def test_a_sparse_gradient_moves_less_than_a_dense_one() -> None:
    given_ = gradients(1, 4, 1 << 18, 0.01)
    sparse, plain = sum(_volumes(Sketched(4, 0.08), given_)), sum(_volumes(dense, given_))
    assert sparse < 0.15 * plain


def test_what_is_not_finite_is_refused() -> None:
    with pytest.raises(WireError, match="integers cannot carry it"):
        together(Integer(1), [np.array([np.inf], np.float32)])


def test_workers_that_ask_for_different_rounds_are_told() -> None:
    with pytest.raises(WireError, match="different rounds"):
        together(dense, [np.zeros(3, np.float32), np.zeros(4, np.float32)])


def _volumes(mode: Mode, given_: list[Floats]) -> list[int]:
    """Bytes of each round that a worker sends."""
    seen: list[int] = []

    def watched(gradient: Floats):  # type: ignore[no-untyped-def]
        rounds, reduced = mode(gradient), None
        while True:
            try:
                asked: RoundRequest = rounds.send(reduced)
            except StopIteration as end:
                return end.value
            if gradient is given_[0]:
                seen.append(asked.values.nbytes)
            assert asked.op in SwitchOp
            reduced = yield asked

    together(watched, given_)
    return seen
