"""Step times as a distribution: reproducible, on any number of threads, in both engines."""

import numpy as np
import pytest

from paceline.engine import native
from paceline.errors import ReplayError
from paceline.graph import GraphBuilder
from paceline.graph.synthetic import jumble
from paceline.replay import Distribution, Engine, Sampling, replay_many

needs_native = pytest.mark.skipif(native() is None, reason="the native core is not built")


def equal(one: Distribution, other: Distribution) -> bool:
    return np.array_equal(one.steps_ns, other.steps_ns) and np.array_equal(
        one.critical_probability, other.critical_probability
    )


@needs_native
@pytest.mark.parametrize("sampling", Sampling)
def test_native_draws_equal_the_reference(sampling: Sampling) -> None:
    compared = 0
    for seed in range(80):
        graph = jumble(seed, longest=20)
        try:
            one = replay_many(graph, 6, seed, sampling=sampling)
        except ReplayError:
            continue
        other = replay_many(graph, 6, seed, sampling=sampling, engine=Engine.REFERENCE)
        assert equal(one, other), seed
        compared += 1
    assert compared > 40


@needs_native
def test_the_number_of_threads_does_not_matter() -> None:
    graph = jumble(12, recorded=True)
    runs = [replay_many(graph, 50, 7, threads=threads) for threads in (1, 2, 5)]
    assert all(equal(runs[0], run) for run in runs)
    assert not equal(runs[0], replay_many(graph, 50, 8))


def test_a_coin_between_two_lanes_lies_on_the_critical_path_as_often_as_it_is_slow() -> None:
    b = GraphBuilder()
    coin = b.op("coin", b.lane(), 1)
    steady = b.op("steady", b.lane(), 10)
    b.samples(coin, [5, 15])
    found = replay_many(b.build(), 4000, seed=1)
    # half of the draws take 15 ns and hang on the coin, half take 10 ns and hang on the steady op
    assert set(found.steps_ns.tolist()) == {10, 15}
    assert found.mean_ns == pytest.approx(12.5, rel=0.03)
    assert found.critical_probability[coin] == pytest.approx(0.5, abs=0.03)
    assert found.critical_probability[[coin, steady]].sum() == pytest.approx(1)
    assert (found.p5_ns, found.p95_ns) == (10, 15)


def test_quantiles_are_met_and_filled_between() -> None:
    b = GraphBuilder()
    op = b.op("op", b.lane(), 1)
    b.samples(op, [300, 100, 200])  # in any order: they are sorted
    found = replay_many(b.build(), 4000, seed=2, sampling=Sampling.QUANTILES)
    assert found.median_ns == pytest.approx(200, rel=0.03)
    assert found.p5_ns == pytest.approx(110, rel=0.03)
    assert found.p95_ns == pytest.approx(290, rel=0.03)


@pytest.mark.parametrize(("draws", "seed", "threads"), [(0, 0, 1), (1, -1, 1), (1, 0, 0)])
def test_impossible_requests_are_refused(draws: int, seed: int, threads: int) -> None:
    with pytest.raises(ReplayError, match="draws and threads must be at least 1"):
        replay_many(jumble(12), draws, seed, threads=threads)
