"""All-reduce and parameter servers over the transport, with and without loss."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_ranks import DATA, QUICK, Relay, ranks, together

from paceline.wire import (
    Bounds,
    Endpoint,
    Importance,
    Layers,
    PushPullWorker,
    ReplicaError,
    Server,
    TransferPhase,
    WireError,
    WireGroup,
    prove_equal,
)
from paceline.wire.group import add_up

pytestmark = pytest.mark.needs("native", "linux")


def groups(ends: list[Endpoint], bounds: Bounds = Bounds(), **given: Any) -> list[WireGroup]:  # noqa: B008
    return [WireGroup(end, range(len(ends)), bounds, **given) for end in ends]


def gradients(rank: int, size: int) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal(size).astype(np.float32)


def in_order(count: int, size: int) -> np.ndarray:
    total = gradients(0, size)
    for rank in range(1, count):
        total = total + gradients(rank, size)
    return total


@pytest.mark.parametrize(("count", "size"), [(2, 1), (2, 100_000), (3, 50_001), (4, 3)])
def test_a_budget_of_zero_gives_the_exact_sum_on_all_ranks(count: int, size: int) -> None:
    with ranks(count) as ends:
        found = [gradients(rank, size) for rank in range(count)]
        made = groups(ends)
        together([lambda g=g, v=v: g.all_reduce(v, step=1) for g, v in zip(made, found)])
        digests = together(
            [lambda g=g, v=v: prove_equal(g, [v], step=1) for g, v in zip(made, found)]
        )
    assert all(np.array_equal(values, in_order(count, size)) for values in found)
    assert len(set(digests)) == 1


def lose_some(header: dict[str, int]) -> bool:
    return header["kind"] == DATA and header["round"] == 0 and header["sequence"] % 10 == 3


def everywhere(relay: Callable[..., Relay]) -> Callable[[list[Endpoint]], Any]:
    """Every way between two ranks loses packets."""

    def ways(ends: list[Endpoint]) -> dict[tuple[int, int], Any]:
        into = {end.rank: relay(end.address, lose_some).address for end in ends}
        # ranks above open the reliable channel to those below them, which a relay does not carry
        return {(a, b): into[b] for a in into for b in into if a < b}

    return ways


def all_reduce(made: list[WireGroup], found: list[np.ndarray], step: int) -> None:
    together([lambda g=g, v=v: g.all_reduce(v, step=step) for g, v in zip(made, found)])
    together([lambda g=g, v=v: prove_equal(g, [v], step=step) for g, v in zip(made, found)])


def test_under_loss_ranks_stay_equal_and_sums_stand_for_all(relay: Callable[..., Relay]) -> None:
    size, count = 60_000, 3
    with ranks(count, QUICK, everywhere(relay)) as ends:
        found = [gradients(rank, size) for rank in range(count)]
        made = groups(ends, Bounds(gradients=0.2))
        all_reduce(made, found, 1)
    assert all(np.array_equal(values, found[0]) for values in found)
    exact = in_order(count, size)
    off = found[0] != exact
    assert 0.01 < off.mean() < 0.2
    assert sum(g.ledger.lost_share(TransferPhase.SCATTER) for g in made) > 0.01
    assert all(g.ledger.lost_share(TransferPhase.GATHER) == 0 for g in made)
    assert {line.phase for line in made[2].ledger.lines() if line.missing_bytes} == {
        TransferPhase.SCATTER
    }


def test_gathered_values_that_one_rank_lacks_are_the_older_ones_on_all(
    relay: Callable[..., Relay],
) -> None:
    size, count = 60_000, 3
    with ranks(count, QUICK, everywhere(relay)) as ends:
        made = groups(ends, Bounds(parameters=0.5))
        for step in (1, 2):
            found = [gradients(rank, size) * step for rank in range(count)]
            together(
                [lambda g=g, v=v, n=step: g.all_reduce(v, step=n) for g, v in zip(made, found)]
            )
            together(
                [lambda g=g, v=v, n=step: prove_equal(g, [v], step=n) for g, v in zip(made, found)]
            )
    newer, older = 2 * in_order(count, size), in_order(count, size)
    stale = found[0] != newer
    assert 0 < stale.mean() < 0.5
    assert np.array_equal(found[0][stale], older[stale])


def test_ranks_that_hold_different_values_are_told() -> None:
    with ranks(2) as ends:
        made = groups(ends)

        def prove(g: WireGroup) -> None:
            with pytest.raises(ReplicaError, match="other values than rank"):
                prove_equal(g, [gradients(g.endpoint.rank, 10)], step=3)

        together([lambda g=g: prove(g) for g in made])


def test_a_server_adds_up_what_workers_push_and_hands_out_parameters() -> None:
    size = 20_000
    with ranks(3) as ends:
        made = groups(ends)
        total, weights = np.zeros(size, np.float32), gradients(9, size)
        pulled = [np.zeros(size, np.float32) for _ in range(2)]

        def serve() -> None:
            server = Server(made[0])
            server.push(total, step=1)
            server.pull(weights, step=1)

        def work(rank: int) -> None:
            worker = PushPullWorker(made[rank])
            worker.push(gradients(rank, size), step=1)
            worker.pull(pulled[rank - 1], step=1)

        together([serve, lambda: work(1), lambda: work(2)])
    assert np.array_equal(total, gradients(1, size) + gradients(2, size))
    assert all(np.array_equal(each, weights) for each in pulled)


def test_a_worker_keeps_older_parameters_where_newer_ones_are_lost(
    relay: Callable[..., Relay],
) -> None:
    size = 60_000
    with ranks(2, QUICK, everywhere(relay)) as ends:
        made = groups(ends, Bounds(parameters=0.2))
        older, newer = gradients(1, size), gradients(2, size)
        mine = older.copy()
        together(
            [
                lambda: Server(made[0]).pull(newer, step=1),
                lambda: PushPullWorker(made[1]).pull(mine, step=1),
            ]
        )
    stale = mine != newer
    assert 0.05 < stale.mean() < 0.2
    assert np.array_equal(mine[stale], older[stale])


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 9), st.randoms())
@settings(max_examples=60)
def test_a_sum_of_what_came_is_scaled_to_all(count: int, size: int, each: int, draw: Any) -> None:
    packets = -(-size // each)
    parts = [
        (gradients(n, size), np.array([draw.random() < 0.7 for _ in range(packets)], np.uint8))
        for n in range(count)
    ]
    found = np.empty(size, np.float32)
    add_up(parts, each, found)
    for place in range(size):
        there = [values[place] for values, flags in parts if flags[place // each]]
        wanted = sum(there) * count / len(there) if there else 0.0
        assert found[place] == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_large_values_of_a_layer_matter_and_front_layers_go_first() -> None:
    importance = Importance(layers=4, top=0.25)
    loud, quiet = np.full(10, 5.0), np.linspace(1, 2, 30)
    magnitudes = np.concatenate([quiet, loud]).astype(np.float32)
    marks = importance.marks(magnitudes, np.zeros(40, np.int64))
    assert marks.important[30:].all()
    assert marks.important[:30].sum() <= 5
    back = importance.marks(magnitudes, np.full(40, 3))
    assert back.tos[0] >> 5 > marks.tos[0] >> 5  # a lower class: served later
    assert set(marks.tos[marks.important > 0] & 3) == {0b10}
    assert set(marks.tos[marks.important == 0] & 3) == {0}


def test_layers_of_packets_are_those_of_their_first_values() -> None:
    layers = Layers(2, ends=(100, 1000), numbers=(1, 0))
    assert layers.of_packets(0, 400, 100).tolist() == [1, 0, 0, 0]
    assert layers.of_packets(50, 200, 100).tolist() == [1, 0]
    assert Layers(1).of_packets(0, 10, 4).tolist() == [0, 0, 0]


@pytest.mark.parametrize("wrong", [{"gradients": 1.5}, {"parameters": -0.1}, {"step": 2}])
def test_bounds_that_are_no_shares_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(WireError, match="share from 0 to 1"):
        Bounds(**wrong)
