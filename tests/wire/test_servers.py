"""A parameter server whose parts are pulled while others are still pushed."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_group import everywhere, gradients, groups
from wire_ranks import QUICK, Relay, ranks, together

from paceline.wire import Bounds, PushPullWorker, Server, TransferPhase, WireError, WireGroup
from paceline.wire.parts import Parts

pytestmark = pytest.mark.needs("native", "linux")

SIZE = 60_000  # values: 168 packets, 11 parts
RATE = np.float32(0.5)


def trained(made: list[WireGroup], steps: int) -> list[np.ndarray]:
    """The server's weights and each worker's, after steps of which each pushes its own gradient."""
    weights, sums = gradients(9, SIZE), np.zeros(SIZE, np.float32)
    pulled = [weights.copy() for _ in made[1:]]

    def update(part: slice) -> None:
        weights[part] -= RATE * sums[part]

    def serve() -> None:
        server = Server(made[0])
        for step in range(1, steps + 1):
            server.step(sums, weights, update, step=step)
        server.settle()

    def work(rank: int) -> None:
        worker = PushPullWorker(made[rank])
        for step in range(1, steps + 1):
            worker.step(gradients(10 * step + rank, SIZE), pulled[rank - 1], step=step)
        worker.settle()

    together([serve, *(lambda rank=rank: work(rank) for rank in range(1, len(made)))])
    return [weights, *pulled]


def wanted(workers: int, steps: int) -> np.ndarray:
    weights = gradients(9, SIZE)
    for step in range(1, steps + 1):
        total = gradients(10 * step + 1, SIZE)
        for rank in range(2, workers + 1):
            total = total + gradients(10 * step + rank, SIZE)
        weights = weights - RATE * total
    return weights


def test_without_a_budget_all_hold_what_plain_arithmetic_gives() -> None:
    with ranks(3) as ends:
        found = trained(groups(ends), steps=4)
    assert all(np.array_equal(each, wanted(2, 4)) for each in found)


def test_lost_packets_change_nothing_where_none_may_be_lost(relay: Callable[..., Relay]) -> None:
    with ranks(3, QUICK, everywhere(relay)) as ends:
        found = trained(groups(ends), steps=3)
    assert all(np.array_equal(each, wanted(2, 3)) for each in found)


def test_within_the_budget_workers_still_hold_what_the_server_holds(
    relay: Callable[..., Relay],
) -> None:
    with ranks(2, QUICK, everywhere(relay)) as ends:  # from rank 0 to rank 1, which serves
        made = groups(ends, Bounds(gradients=0.2))
        weights, sums = gradients(9, SIZE), np.zeros(SIZE, np.float32)
        mine = weights.copy()

        def update(part: slice) -> None:
            weights[part] -= RATE * sums[part]

        def serve() -> None:
            server = Server(made[1])
            server.step(sums, weights, update, step=1)
            server.settle()

        work = PushPullWorker(made[0], server=1)
        together([serve, lambda: work.step(gradients(11, SIZE), mine, step=1)])
        share = made[1].ledger.lost_share(TransferPhase.PUSH)
    assert np.array_equal(mine, weights)
    assert 0.05 < share < 0.2


@given(st.integers(0, 5000), st.integers(1, 9), st.integers(1, 20))
def test_parts_cover_a_tensor_in_whole_packets(values: int, packet: int, packets: int) -> None:
    parts = Parts(values, packet, packets)
    where = list(parts)
    assert len(where) == len(parts)
    assert [n for part in where for n in range(part.start, part.stop)] == list(range(values))
    assert all(part.start % packet == 0 for part in where)
    of_packets = [n for part in where for n in range(values)[parts.packets_of(part)]]
    assert of_packets == list(range(-(-values // packet)))


def test_a_part_may_lose_what_its_tensor_may_but_no_more_than_itself() -> None:
    parts = Parts(1000, 10, 10)
    assert [parts.budget(part, 0.05) for part in parts] == [0.5] * 10
    assert [parts.budget(part, 0.3) for part in parts] == [1.0] * 10


def test_parts_that_cannot_be_numbered_are_refused() -> None:
    with pytest.raises(WireError, match="no more than 65536 parts"):
        Parts(70_000, 1, 1)
